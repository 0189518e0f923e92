//! The bound on a draft model's cache: at the limit, and just past it.

use super::*;
use crate::model::Model;
use crate::model::synthetic::SyntheticModel;

/// The settings of these lines of a `--config` file.
fn settings(folder: &Path, lines: &str) -> Settings {
    let file = folder.join("config.toml");
    std::fs::write(&file, format!("model = 'm'\nrequests = 'r'\nout = 'o'\n{lines}")).unwrap();
    Settings::resolve(&Options { config: Some(file), ..Options::default() }).unwrap().0
}

#[test]
fn a_draft_model_may_have_what_is_set_aside_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    SyntheticModel { context_length: 4096, ..SyntheticModel::llama(1) }.write_gguf(&path).unwrap();
    let config = Model::load(&path).unwrap().config;
    let sizes = Sizes { context_length: 4096, pages: 1 };
    let page = page_bytes(&config, KvType::F32);
    // Of 4,096 tokens and 4 drafts.
    let pages_of_one = 129;
    let most = KV_BYTES / (pages_of_one * page);
    let pages = |lines: &str| settings(folder.path(), lines).draft_pages(&config, &sizes);
    assert_eq!(pages(&format!("max-batch = {most}")).unwrap(), most * pages_of_one);
    let past = most + 1;
    let error = pages(&format!("max-batch = {past}")).unwrap_err().to_string();
    for part in ["accepted: 2048 MiB at most", &format!("--kv-pages {}", past * pages_of_one), "--kv-type f16"] {
        assert!(error.contains(part), "{error}");
    }
    // What the error says helps.
    let asked = past * pages_of_one;
    assert_eq!(pages(&format!("max-batch = {past}\nkv-pages = {asked}")).unwrap(), asked);
    assert!(pages(&format!("max-batch = {past}\nkv-pages = {}", asked - 1)).is_err());
    assert_eq!(pages(&format!("max-batch = {past}\nkv-type = 'f16'")).unwrap(), asked);
    // Fewer pages for the model take nothing from the draft model.
    assert_eq!(pages(&format!("max-batch = {most}\nkv-pages = 1")).unwrap(), most * pages_of_one);
}
