//! `stepscope report` tells what captures show in one file, and nothing in a capture can be more than text there.

#[path = "support/command.rs"]
mod command;
#[path = "support/markdown.rs"]
mod markdown;
#[path = "support/markup.rs"]
mod markup;
#[path = "support/recorded.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod recorded;

use std::path::{Path, PathBuf};

use command::stepscope;
use markdown::{assert_tables, without_code};
use markup::Page;
use recorded::write;
use stepscope::capture::records::{Component, LossRecord, Redaction, RequestRecord, Setting};
use stepscope::capture::{CaptureReader, Record};
use stepscope::incident::Files;
use tempfile::TempDir;

fn sample(name: &str) -> String {
    format!("{}/captures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A folder with the incident's models, for captures and reports.
struct Bench {
    folder: TempDir,
    files: Files,
}

impl Bench {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let files = Files::write(folder.path()).unwrap();
        Self { folder, files }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `--model` and `--draft-model` of the incident.
    fn models(&self) -> [String; 4] {
        let path = |path: PathBuf| path.display().to_string();
        let draft = path(self.path("draft.gguf"));
        ["--model".to_owned(), path(self.files.target()), "--draft-model".to_owned(), draft]
    }

    /// The report of captures as text, which has to end with that status.
    fn report(&self, status: i32, name: &str, arguments: &[&str]) -> String {
        let out = self.path(name);
        let out = ["--out", out.to_str().unwrap()];
        let run = stepscope(&[&["report"], arguments, &out].concat());
        assert_eq!(run.status, status, "{arguments:?}: {}{}", run.stdout, run.stderr);
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The page of captures, which has to be well-formed and to hold nothing that runs or is loaded.
    fn page(&self, status: i32, name: &str, arguments: &[&str]) -> (String, Page) {
        let html = self.report(status, name, arguments);
        let page = markup::read(&html).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
        assert_inert(&html, &page);
        (html, page)
    }

    /// A capture of the records of a sample, changed.
    fn changed(&self, sample: &str, name: &str, change: impl FnOnce(&mut Vec<Record>)) -> String {
        let mut records = records(Path::new(sample));
        change(&mut records);
        write(&records, &self.path(name));
        self.path(name).display().to_string()
    }
}

fn records(capture: &Path) -> Vec<Record> {
    let reader = CaptureReader::open(capture).unwrap();
    reader.messages().map(|message| message.unwrap().record).collect()
}

/// Elements and attributes of the page's own, and no address anywhere but in its text.
fn assert_inert(html: &str, page: &Page) {
    const ELEMENTS: [&str; 37] = [
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "header",
        "h1",
        "h2",
        "h3",
        "p",
        "nav",
        "ol",
        "ul",
        "li",
        "a",
        "main",
        "section",
        "div",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "code",
        "strong",
        "pre",
        "figure",
        "figcaption",
        "details",
        "summary",
        "footer",
        "svg",
        "desc",
        "text",
        "circle",
    ];
    const SHAPES: [&str; 4] = ["polygon", "polyline", "rect", "line"];
    for element in page.elements.keys() {
        assert!(ELEMENTS.contains(&element.as_str()) || SHAPES.contains(&element.as_str()), "<{element}>");
    }
    assert!(page.attributes.iter().all(|name| !name.starts_with("on") && name != "src" && name != "style"));
    assert!(!html.contains("<script") && !html.contains("url(") && !html.contains("@import"));
}

/// The text between two headings of sections.
fn section<'a>(page: &'a Page, title: &str, next: &str) -> &'a str {
    let begin = page.text.rfind(&format!("\n{title}\n")).unwrap_or_else(|| panic!("{title}: {}", page.text));
    let text = &page.text[begin + 1..];
    &text[..text.rfind(&format!("\n{next}\n")).unwrap_or(text.len())]
}

#[test]
fn the_incident_is_told_with_its_condition_and_its_operation() {
    let bench = Bench::new();
    let models = bench.models();
    let faulty = sample("incident/faulty.mcap");
    let arguments: Vec<&str> = [faulty.as_str()].into_iter().chain(models.iter().map(String::as_str)).collect();
    let (html, page) = bench.page(1, "r.html", &arguments);
    for words in [
        "A forced token was misranked on 18 of 18 steps where prev_accepted > q_len, and on 0 of 42 others",
        "First wrong operation: layer 0, short_convolution: zeroed, in step 2 of call-00.",
        "stepscope incident target (lfm2, vocabulary 768, 1008192 bytes)",
        "tokenizers 0.23.2, llguidance 1.9.1",
        "None: every check that was run is exact here, bit for bit.",
        "Findings: the first 10 of 1338",
        "Nothing: each capture was finished",
        "84 could be judged: 18 fail, 66 pass",
        "of 200 runs with shuffled labels, 0 report anything",
        "Not explained: 0 of 18 failing steps.",
        "call-00 step 2 (passes: step 1)",
        "Where more were accepted than the step read, 18 of 18 judged steps misranked a forced token; elsewhere 0 of",
        "103 of 103 marks are drawn; 6 steps without such a rank.",
        "expected  values up to",
        "found     zeros alone",
    ] {
        assert!(page.text.contains(words), "{words}: {}", page.text);
    }
    assert_eq!(page.elements["svg"], 5);
    assert_eq!(page.elements["desc"], 5, "each plot has a text that stands in its place");
    for anchor in ["recorded", "verdicts", "missing", "conditions", "plots", "worst", "operation"] {
        assert!(page.ids.contains(anchor), "{anchor}");
    }
    let worst = section(&page, "Worst steps", "First wrong operation");
    assert!(worst.contains("736") && worst.contains("</tool_call>") && worst.contains("prev_accepted 16"), "{worst}");
    assert!(!worst.contains("\\\\n"), "escaped twice: {worst}");
    // 18 triangles in each of the two plots over steps, and one for each place of the third.
    assert!(page.elements["polygon"] >= 36, "{:?}", page.elements);
    assert!(!html.contains("state-bound-by-query"), "only `info` reads which faults were planted");
    assert_eq!(html.matches("http").count(), html.matches("http-equiv").count(), "no address of anything");
    assert!(
        html.contains("default-src &#39;none&#39;; style-src &#39;sha256-"),
        "what is not the page's own may not run"
    );
    assert_eq!(html, bench.page(1, "again.html", &arguments).0, "the same captures give the same page");
}

#[test]
fn without_a_model_it_says_how_to_get_what_needs_one() {
    let bench = Bench::new();
    let (html, page) = bench.page(1, "r.html", &[&sample("incident/faulty.mcap")]);
    for words in [
        "18 of 18",
        "Not looked for, since no model was given.",
        "Not run without the model (--model): validity, logits, forward, sampler, accept.",
        "no model was given (--model)",
        "Tokens are told by their ids",
        "Nothing: each capture was finished",
    ] {
        assert!(page.text.contains(words), "{words}: {}", page.text);
    }
    assert!(!html.contains("state-bound-by-query"));
    assert!(bench.page(3, "clean.html", &[&sample("incident/clean.mcap")]).1.text.contains("no model was given"));
}

#[test]
fn a_clean_run_is_clean_and_the_file_is_never_replaced() {
    let bench = Bench::new();
    let models = bench.models();
    let clean = sample("incident/clean.mcap");
    let arguments: Vec<&str> = [clean.as_str()].into_iter().chain(models.iter().map(String::as_str)).collect();
    let (_, page) = bench.page(0, "r.html", &arguments);
    for words in [
        "No forced token was misranked on any of 103 judged steps.",
        "Replay: clean: every recorded decision that was checked follows",
        "None: whatever the checks that were run look at was compared.",
        "Nothing to correlate: no step fails.",
        "no difference: each of 1024 rows is what the model gives",
    ] {
        assert!(page.text.contains(words), "{words}: {}", page.text);
    }
    std::fs::write(bench.path("taken.html"), "mine").unwrap();
    for name in ["taken.html", "nowhere/r.html"] {
        let out = bench.path(name).display().to_string();
        let run = stepscope(&["report", &clean, "--out", &out]);
        assert_eq!(run.status, 2, "{}", run.stdout);
    }
    assert_eq!(std::fs::read_to_string(bench.path("taken.html")).unwrap(), "mine");
    let left = std::fs::read_dir(bench.folder.path()).unwrap();
    let partial = left.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "partial"));
    assert_eq!(partial.count(), 0);
    let wrong = bench.path("wrong.html").display().to_string();
    let run = stepscope(&["report", &clean, "--model", &models[3], "--out", &wrong]);
    assert_eq!(run.status, 2, "another model: {}", run.stdout);
    assert!(!bench.path("wrong.html").exists());
}

#[test]
fn what_is_cut_or_lost_is_told() {
    let bench = Bench::new();
    let bytes = std::fs::read(sample("incident/clean.mcap")).unwrap();
    std::fs::write(bench.path("cut.mcap"), &bytes[..100_000]).unwrap();
    let cut = bench.path("cut.mcap").display().to_string();
    let (_, page) = bench.page(3, "cut.html", &[&cut]);
    let lost = section(&page, "What could not be checked, and what was lost", "Conditions that go with bad steps");
    assert!(lost.contains("cut: bytes") && lost.contains("the file ends within a record"), "{lost}");
    assert!(page.text.contains("Lost or damaged: ") && page.text.contains("not finished"), "{}", page.text);

    let lossy = bench.changed(&sample("incident/clean.mcap"), "lossy.mcap", |records| {
        records.push(Record::Loss(LossRecord {
            time_ns: 1,
            channel: "logits".to_owned(),
            messages: Some(7),
            bytes: None,
            steps: Some((3, 4)),
            reason: "the queue was full".to_owned(),
        }));
    });
    let (_, page) = bench.page(3, "lossy.html", &[&lossy]);
    assert!(page.text.contains("lost: 7 messages of `logits`, steps 3 to 4: the queue was full"), "{}", page.text);
}

#[test]
fn what_is_not_recorded_is_not_made_up() {
    let bench = Bench::new();
    let unknown = bench.changed(&sample("incident/faulty.mcap"), "unknown.mcap", |records| {
        records.retain(|record| !matches!(record, Record::Columns(_)));
        for record in records {
            match record {
                Record::Header(header) => {
                    (header.model, header.device, header.arithmetic_version) = (None, None, None);
                    header.components.clear();
                    header.configuration.clear();
                }
                Record::Step(step) => {
                    (step.q_len, step.prev_accepted, step.verdicts, step.state) = (None, None, None, None);
                    for row in &mut step.rows {
                        (row.forced, row.margin, row.mask_population, row.scheduler_mask) = (None, None, None, None);
                    }
                }
                _ => {}
            }
        }
    });
    let (_, page) = bench.page(1, "unknown.html", &[&unknown]);
    for words in [
        "No step could be judged",
        "Nothing to correlate: no step could be judged.",
        "arithmetic unknown",
        "The recorder says nothing of its configuration.",
        "prev_accepted and q_len are recorded together of no step.",
        "no margin of an emitted token is recorded.",
        "no population of an applied mask is recorded.",
        "the header names no end tokens",
    ] {
        assert!(page.text.contains(words), "{words}: {}", page.text);
    }
    assert_eq!(page.elements["svg"], 1, "bytes of channels alone are known");
}

#[test]
fn a_foreign_engine_is_told_with_what_is_not_known_of_it() {
    let bench = Bench::new();
    let (_, page) = bench.page(3, "r.html", &[&sample("vllm/sync-ngram.mcap")]);
    for words in [
        "sampling as vllm, arithmetic unknown",
        "cpu, name unknown, avx512, 1 threads",
        "55 settings of unrecorded source",
        "sampling: foreign rules",
        "the rules of `vllm` are not known here",
        "drafts: within tolerance",
        "how vLLM drafts is not repeated here",
        "misranked on 2 of 10 judged steps, too few to tell which conditions go with them.",
        "2 failing steps are too few to tell anything of",
    ] {
        assert!(page.text.contains(words), "{words}: {}", page.text);
    }
}

/// What ends an attribute, an element, a code span and a table's cell, runs, calls, links, and turns text around.
const HOSTILE: &str =
    "\"'></code></pre></style><script>alert(1)</script>`` | @team [x](http://e.example) \u{202e}\u{0}\n```\n# h";

#[test]
fn hostile_text_of_a_capture_is_text() {
    let bench = Bench::new();
    let hostile = bench.changed(&sample("incident/faulty.mcap"), "hostile.mcap", |records| {
        let text = || HOSTILE.to_owned();
        for record in records.iter_mut() {
            match record {
                Record::Header(header) => {
                    (header.recorder.name, header.recorder.version, header.recorder.build) =
                        (text(), text(), Some(text()));
                    header.sampler_semantics = text();
                    header.components.push(Component { name: text(), version: text() });
                    header.configuration.push(Setting { name: text(), value: text(), source: Some(text()) });
                    header.redactions.push(Redaction { field: text(), how: text() });
                    if let Some(model) = &mut header.model {
                        (model.name, model.architecture) = (text(), Some(text()));
                    }
                    if let Some(device) = &mut header.device {
                        (device.name, device.isa, device.backend) = (Some(text()), Some(text()), text());
                    }
                }
                Record::Request(request) => {
                    if let RequestRecord::Admitted(admission) = request.as_mut() {
                        admission.client_id = Some(format!("{HOSTILE}{}", admission.request));
                    }
                }
                _ => {}
            }
        }
        records.push(Record::Loss(LossRecord {
            time_ns: 1,
            channel: text(),
            messages: None,
            bytes: None,
            steps: None,
            reason: text(),
        }));
    });
    let (html, page) = bench.page(1, "hostile.html", &[&hostile]);
    let plain = bench.page(1, "plain.html", &[&sample("incident/faulty.mcap")]).1;
    assert!(page.text.contains("<script>alert(1)</script>"), "it is told, as text");
    assert!(!html.contains("<script") && !html.contains('\u{202e}'));
    // What the hostile strings say is in their cells, and no cell of any other table changed its number.
    assert_eq!(page.elements.keys().collect::<Vec<_>>(), plain.elements.keys().collect::<Vec<_>>());

    let markdown = bench.report(1, "hostile.md", &[&hostile]);
    assert!(markdown.contains("<script>alert(1)"), "it is told, in code");
    let outside = ["\\<", "\\[", "\\]"].iter().fold(without_code(&markdown), |text, escaped| text.replace(escaped, ""));
    for words in ["<script", "@team", "](http", "\n# h", "\u{202e}"] {
        assert!(!outside.contains(words), "{words:?}: {outside}");
    }
    assert_tables(&outside);
}

#[test]
fn markdown_says_the_same_without_plots() {
    let bench = Bench::new();
    let markdown = bench.report(1, "r.md", &[&sample("incident/faulty.mcap")]);
    for words in [
        "**18 of 18** steps where `prev_accepted > q_len`, and on **0 of 42** others",
        "| 1 | `prev_accepted > q_len` | **18 of 18** | **0 of 42** |",
        "| `applied-mask` | 983 | 0 | 0 |",
        "## First wrong operation",
        "Where more were accepted than the step read, 18 of 18 judged steps",
    ] {
        assert!(markdown.contains(words), "{words}: {markdown}");
    }
    assert!(!markdown.contains("<svg") && !markdown.contains("triangle"), "{markdown}");
    assert_tables(&without_code(&markdown));
    let html = bench.report(1, "named.md.html", &[&sample("incident/faulty.mcap"), "--format", "md"]);
    assert_eq!(html, markdown, "--format is stronger than the file's name");
}

#[test]
fn a_page_is_bounded_whatever_a_capture_holds() {
    let bench = Bench::new();
    let large = bench.changed(&sample("incident/faulty.mcap"), "large.mcap", |records| {
        let steps: Vec<_> = records
            .iter()
            .filter_map(|record| match record {
                Record::Step(step) if step.prev_accepted.is_some() => Some(step.as_ref().clone()),
                _ => None,
            })
            .collect();
        for (index, mut step) in steps.iter().cycle().take(4000).cloned().enumerate() {
            step.step = 1000 + index as u64;
            records.push(Record::Step(Box::new(step)));
        }
        for record in records.iter_mut() {
            let Record::Header(header) = record else { continue };
            let setting = |index: usize| Setting { name: format!("s{index}"), value: "v".repeat(5000), source: None };
            header.configuration = (0..1000).map(setting).collect();
        }
    });
    let (html, page) = bench.page(1, "large.html", &[&large]);
    assert!(page.text.contains("800 more settings") && page.text.contains("(4700 more characters)"));
    let marks = ["circle", "polygon"].map(|shape| page.elements[shape]).iter().sum::<usize>();
    assert!((2000..9000).contains(&marks), "{marks} marks");
    assert!(html.len() < 2 << 20, "{} bytes", html.len());
    assert!(page.text.contains(" marks are drawn"), "{}", page.text);
}

#[test]
fn several_captures_are_told_together() {
    let bench = Bench::new();
    let names = ["incident/clean.mcap", "incident/faulty.mcap"].map(sample);
    let (_, page) = bench.page(1, "r.html", &[&names[0], &names[1]]);
    assert_eq!(page.elements["svg"], 10);
    assert!(page.text.contains("Stepscope report on 2 captures"), "{}", page.text);
    let worst = section(&page, "Worst steps", "First wrong operation");
    assert!(worst.contains("faulty.mcap") && !worst.contains("clean.mcap"), "{worst}");
}
