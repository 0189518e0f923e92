//! `stepscope bisect` finds the settings that make the difference, and takes no run that cannot be judged for an answer.

#[path = "support/command.rs"]
#[allow(dead_code, reason = "each test binary uses a part of it")]
mod command;

use std::path::Path;

use command::{Run, stepscope};
use serde_json::{Value, json};
use stepscope::incident::{FAULT, Files};

/// The incident's files in a folder of their own.
struct Incident {
    folder: tempfile::TempDir,
    files: Files,
}

impl Incident {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::write(folder.path()).unwrap();
        Self { folder, files }
    }

    fn draft(&self) -> String {
        format!("drafter = 'model'\ndraft-model = '{}'\n", self.files.draft().display())
    }

    /// The launcher's defaults, with the fault.
    fn defaults(&self) -> String {
        format!("drafts = 7\nscheduling = 'async'\ninject = '{}'\n{}", FAULT.name(), self.draft())
    }

    /// The reporter's configuration.
    fn reported(&self) -> String {
        format!("drafts = 15\nscheduling = 'sync'\n{}", self.draft())
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Bisects between these settings, and what they have in common.
    fn bisect(&self, good: &str, bad: &str, more: &[&str]) -> Run {
        let [a, b] = ["a.toml", "b.toml"].map(|name| self.path(name));
        for (path, settings) in [(&a, good), (&b, bad)] {
            std::fs::write(path, format!("tool-format = 'tagged'\n{settings}")).unwrap();
        }
        let path = |path: &Path| path.display().to_string();
        let (model, requests) = (path(&self.files.target()), path(&self.files.requests()));
        let given: &[&str] = if more.contains(&"--requests") { &[] } else { &["--requests", &requests] };
        let fixed = ["bisect", "--good", &a, "--bad", &b, "--model", &model];
        stepscope(&[&fixed, given, more].concat())
    }

    /// The JSON of a bisection, which has to end with that status.
    fn found(&self, status: i32, good: &str, bad: &str, more: &[&str]) -> Value {
        let run = self.bisect(good, bad, &[more, &["--json"]].concat());
        assert_eq!(run.status, status, "{good}{bad}{more:?}: {}{}", run.stdout, run.stderr);
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
    }

    /// The first requests of the incident.
    fn first(&self, count: usize) -> String {
        let path = self.path(&format!("first-{count}.jsonl"));
        let all = std::fs::read_to_string(self.files.requests()).unwrap();
        let first: String = all.lines().take(count).map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, first).unwrap();
        path
    }
}

/// The runs of a bisection: the settings of each, its verdict and its bad requests.
fn runs(found: &Value) -> Vec<(Vec<&str>, &str, Option<u64>)> {
    found["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            let settings = run["settings"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
            (settings, run["verdict"].as_str().unwrap(), run["bad"].as_u64())
        })
        .collect()
}

fn both() -> Value {
    json!([
        {"setting": "drafts", "good": 7, "bad": 15},
        {"setting": "scheduling", "good": "async", "bad": "sync"},
    ])
}

#[test]
fn the_incidents_settings_are_found_among_others() {
    let incident = Incident::new();
    // Two settings that change nothing.
    let good = format!("max-batch = 8\n{}", incident.defaults());
    let bad = format!("max-batch = 5\nprefill-chunk = 64\ninject = '{}'\n{}", FAULT.name(), incident.reported());
    let expected = incident.path("expected.jsonl");
    let found = incident.found(1, &good, &bad, &["--oracle", "broken", "--expected", &expected]);
    assert_eq!(found["minimal"], both(), "{found:#}");
    assert_eq!(found["confirmed"], true);
    assert_eq!(found["confirmation"], json!({"subsets": 2, "of": "every proper subset", "unresolved": []}));
    let names: Vec<&str> =
        found["differences"].as_array().unwrap().iter().filter_map(|found| found["setting"].as_str()).collect();
    assert_eq!(names, ["drafts", "max-batch", "prefill-chunk", "scheduling"]);
    let runs = runs(&found);
    assert_eq!((&runs[0].0, runs[0].1), (&Vec::new(), "good"));
    assert_eq!((runs[1].0.len(), runs[1].1), (4, "bad"));
    // Each was run, and each setting by itself is not bad; without the fault's other half a few calls break, and too few to tell.
    let verdict = |settings: &[&str]| {
        let run = runs.iter().find(|run| run.0 == settings).unwrap_or_else(|| panic!("{settings:?} in {found:#}"));
        (run.1, run.2)
    };
    let broken = verdict(&["drafts", "scheduling"]);
    assert!(broken.0 == "bad" && broken.1 >= Some(15), "{found:#}");
    assert_eq!(verdict(&["drafts"]), ("not bad", runs[0].2));
    let (alone, few) = verdict(&["scheduling"]);
    assert!(alone == "not bad" && few > runs[0].2 && few < Some(10), "{found:#}");
    let mut subsets: Vec<_> = runs.iter().map(|run| &run.0).collect();
    subsets.sort();
    subsets.dedup();
    assert_eq!(subsets.len(), runs.len(), "no subset is run twice");

    // A token is misranked with seven drafts, too, and so scheduling alone is enough.
    let text = incident.bisect(&good, &bad, &["--oracle", "misrank"]);
    assert_eq!(text.status, 1, "{}", text.stderr);
    for words in [
        "4 settings differ between",
        "this setting makes the difference\n              good     bad\n  scheduling  \"async\"  \"sync\"\n",
        "  1  none (good) ",
        "0 of 72        -  good\n",
        // As many first misranked steps as `correlate` looks at.
        "53 of 72    1e-23  bad\n",
        "confirmed: ",
    ] {
        assert!(text.stdout.contains(words), "{words}: {}", text.stdout);
    }
}

#[test]
fn the_fault_alone_is_found_by_each_oracle() {
    let incident = Incident::new();
    let (clean, requests) = (incident.reported(), incident.first(24));
    let faulty = format!("{clean}inject = '{}'\n", FAULT.name());
    for oracle in [&["misrank"][..], &["finding", "--isa", "auto"]] {
        let found = incident.found(1, &clean, &faulty, &[&["--requests", &requests, "--oracle"], oracle].concat());
        let inject = json!([{"setting": "inject", "good": null, "bad": FAULT.name()}]);
        assert_eq!((&found["minimal"], &found["confirmed"]), (&inject, &true.into()), "{found:#}");
        let bad = found["runs"].as_array().unwrap().iter().map(|run| run["bad"].as_u64()).collect::<Vec<_>>();
        assert!(bad[0] == Some(0) && bad[1] >= Some(10) && bad.len() == 2, "{found:#}");
    }
    let expected = incident.path("expected.jsonl");
    let found = incident.found(1, &clean, &faulty, &["--oracle", "broken", "--expected", &expected]);
    assert_eq!(found["minimal"][0]["setting"], "inject", "{found:#}");
    // The other way round nothing is worse.
    let found = incident.found(0, &faulty, &clean, &["--oracle", "misrank", "--requests", &requests]);
    assert_eq!((&found["minimal"], &found["confirmed"]), (&json!([]), &Value::Null), "{found:#}");
    assert_eq!(runs(&found).iter().map(|run| run.1).collect::<Vec<_>>(), ["good", "not bad"]);
}

#[test]
fn what_cannot_run_is_taken_for_nothing() {
    let incident = Incident::new();
    let requests = incident.first(24);
    let oracle = ["--oracle", "misrank", "--requests", &requests];
    let fault = format!("inject = '{}'\n", FAULT.name());
    // The drafter cannot run without its model, so that it is not known whether it is enough.
    let bad = format!("{fault}drafts = 15\n{}", incident.draft());
    let found = incident.found(3, &format!("{fault}drafts = 15\n"), &bad, &oracle);
    let names: Vec<&str> =
        found["minimal"].as_array().unwrap().iter().filter_map(|found| found["setting"].as_str()).collect();
    assert_eq!(names, ["draft-model", "drafter"], "{found:#}");
    assert_eq!((&found["confirmed"], &found["confirmation"]["unresolved"]), (&false.into(), &json!([["drafter"]])));
    let unresolved = found["runs"].as_array().unwrap().iter().find(|run| run["verdict"] == "unresolved").unwrap();
    assert!(unresolved["reason"].as_str().unwrap().contains("--draft-model is missing"), "{found:#}");
    assert_eq!((&unresolved["bad"], &unresolved["p"]), (&Value::Null, &Value::Null));

    // Where it answers fewer requests, those that are left out could be the bad ones.
    let bad = format!("{}{fault}context-length = 20\n", incident.reported());
    let run = incident.bisect(&incident.reported(), &bad, &oracle);
    assert_eq!(run.status, 2, "{}", run.stdout);
    assert!(run.stderr.contains("--bad") && run.stderr.contains("requests are not answered"), "{}", run.stderr);
}

#[test]
fn what_cannot_be_bisected_says_why() {
    let incident = Incident::new();
    let few = incident.first(2);
    let (clean, faulty) = (incident.reported(), format!("{}inject = '{}'\n", incident.reported(), FAULT.name()));
    let missing = "drafter = 'model'\n";
    for (good, bad, more, words) in [
        (&*clean, &*clean, vec!["--oracle", "misrank"], "no setting differs"),
        (missing, &clean, vec!["--oracle", "misrank"], "a.toml: cannot be judged: --draft-model is missing"),
        (
            &clean,
            missing,
            vec!["--oracle", "misrank", "--requests", &few],
            "b.toml: cannot be judged: --draft-model is missing",
        ),
        (&clean, "quiet = true\n", vec!["--oracle", "misrank"], "line 2: `quiet` is not a setting"),
        (&clean, &faulty, vec!["--oracle", "misrank", "--expected", "e"], "it is for --oracle broken"),
        (&clean, &faulty, vec!["--oracle", "misrank", "--isa", "auto"], "it is for --oracle finding"),
        (&clean, &faulty, vec!["--oracle", "misrank", "--requests", &few], "nothing can be told of 2 requests"),
        (&clean, &faulty, vec!["--oracle", "worst"], "possible values: broken, misrank, finding"),
    ] {
        let run = incident.bisect(good, bad, &more);
        assert!(run.status == 2 && run.stderr.contains(words), "{words}: {} {}", run.status, run.stderr);
        assert_eq!(run.stdout, "");
    }
    // Where a capture goes is no setting.
    let placed = format!("out = 'x.mcap'\n{clean}");
    let run = incident.bisect(&clean, &placed, &["--oracle", "misrank"]);
    assert!(run.status == 2 && run.stderr.contains("out decide nothing here, and are not read"), "{}", run.stderr);
}
