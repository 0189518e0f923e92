# `make demo` runs the main job, `make test` the tests; the rest is for developers.
# Everything uses Cargo's dev profile, which is optimized, so that dependencies are built once.

SHELL := /bin/bash
CARGO ?= cargo
STEPSCOPE := $(CARGO) run --quiet --bin stepscope --

.PHONY: demo tour test bench bench-million quality lint fuzz xgrammar model help

help:
	@echo "make demo     an incident, recorded, replayed and tabulated, with models that ship inside"
	@echo "make tour     fetch SmolLM2-135M, record 24 requests, replay every check"
	@echo "make test     all tests (pytest, what the vLLM recorder writes with and the OpenAI clients go into ~/.cache/stepscope)"
	@echo "make bench    measured figures, paired, with the machine they were taken on"
	@echo "make bench-million  time and memory of the commands that read captures, on a capture of a million steps"
	@echo "make quality  KL divergence from the f32 computation, beside llama.cpp's (needs llama-perplexity)"
	@echo "make lint     rustfmt, clippy, rustdoc"
	@echo "make xgrammar build with XGrammar as a second grammar backend, and hold it against llguidance (C++: some minutes)"
	@echo "make fuzz     each fuzz target for a minute (installs cargo-fuzz)"

model:
	@python3 scripts/fetch-model.py

demo:
	@echo "building stepscope (the first build takes some minutes)"
	@$(CARGO) build --quiet --bin stepscope
	@rm -rf target/demo
	$(STEPSCOPE) demo --out-dir target/demo

tour: model
	@echo "building stepscope (the first build takes some minutes)"
	@$(CARGO) build --quiet --bin stepscope
	@rm -rf target/tour && mkdir -p target/tour
	$(STEPSCOPE) record --model "$$(python3 scripts/fetch-model.py)" --requests captures/tour/requests.jsonl \
	  --out target/tour/tour.mcap --outputs target/tour/outputs.jsonl
	$(STEPSCOPE) replay target/tour/tour.mcap --model "$$(python3 scripts/fetch-model.py)"

test: model
	STEPSCOPE_OPENAI_CLIENTS="$$(scripts/openai-clients.sh)" $(CARGO) test
	STEPSCOPE="$$(realpath "$${CARGO_TARGET_DIR:-target}/debug/stepscope")" scripts/test-recorder.sh

bench: model
	STEPSCOPE_MODEL="$$(python3 scripts/fetch-model.py)" $(CARGO) bench --profile dev --bench figures

bench-million:
	$(CARGO) bench --profile dev --bench million

quality: model
	STEPSCOPE_MODEL="$$(python3 scripts/fetch-model.py)" $(CARGO) bench --profile dev --bench quality

lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items

# The crate needs cmake and a compiler by the name of clang++: the script has both in a cache folder.
xgrammar: model
	@set -ex; tools="$$(scripts/xgrammar-tools.sh)"; export PATH="$$tools:$$PATH"; \
	  $(CARGO) build --features xgrammar --bin stepscope; \
	  $(CARGO) clippy --features xgrammar --all-targets -- -D warnings; \
	  $(CARGO) test --features xgrammar --lib --test record --test xgrammar_oracle

FUZZ_SECONDS ?= 60
fuzz:
	@command -v cargo-fuzz >/dev/null || { echo "installing cargo-fuzz"; $(CARGO) install --quiet --locked cargo-fuzz; }
	@command -v c++ >/dev/null || { echo "installing g++, which libFuzzer is built with"; apt-get install --yes --quiet g++; }
	set -e; for target in capture gguf request; do \
	  mkdir -p fuzz/corpus/$$target; \
	  $(CARGO) fuzz run -s none $$target fuzz/corpus/$$target fuzz/seeds/$$target -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048; done
