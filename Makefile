# All a newcomer needs:
#   make build | demo | test | lint | bench | nightly | clean | docs
# Each works alone on a fresh Debian or Ubuntu with Go; see scripts/setup.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:

# Where Go and the network tools live when the login shell has not said so.
export PATH := $(PATH):/usr/local/go/bin:/usr/sbin:/sbin

# Stamping needs a git that trusts this folder; without one go build would
# fail (a clone mounted into a container under another owner).
export GOFLAGS := $(GOFLAGS) $(shell git rev-parse HEAD >/dev/null 2>&1 || echo -buildvcs=false)

# make bench ONLY=leader runs one part; OUT is where make demo writes.
ONLY ?=
OUT ?= demo/$(shell date +%Y%m%d-%H%M%S)

.PHONY: build demo test lint bench soak nightly clean docs setup peers

# Static binaries: they are copied into containers and onto nodes as they are.
build:
	@scripts/setup go
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/holdfast ./cmd/holdfastd

demo: setup build
	bin/holdfast drill run partial-split --variant main --out $(OUT)

test: setup build peers
	scripts/test

lint:
	@scripts/setup go
	scripts/lint

bench: setup build peers
	go run ./test/bench --only "$(ONLY)" --out bench.json

# An hour at ten times the rate, for leaks.
soak: setup build peers
	go run ./test/bench --only soak --out bench.json

# What is too slow for every commit: long fuzzing, the million schedules, and
# every suite once more without the test cache.
nightly: setup build
	@scripts/peers --all
	scripts/nightly

docs:
	@scripts/setup go
	go generate ./...

clean:
	rm -rf bin demo bench.json

setup:
	@scripts/setup

peers:
	@scripts/peers
