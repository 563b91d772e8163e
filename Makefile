# Every check runs through a target here; continuous integration calls
# .ci/run, which calls `make test`.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

FUZZTIME ?= 60s
NAME     ?=
QUICK    ?=
STRICT   ?=
export STRICT

.PHONY: help build test race fuzz bench prove lint vulncheck verify generate demo services services-stop clean

help: ## this list
	@echo 'unavez: every payment instruction and notification takes effect once'
	@echo
	@awk -F ' *## *' '/^[a-z-]+:.*## / { sub(/:.*/, "", $$1); printf "  make %-14s %s\n", $$1, $$2 }' Makefile

build: ## the program, bin/unavez
	@mkdir -p bin
	@CGO_ENABLED=0 go build -trimpath -o bin/unavez ./cmd/unavez
	@echo bin/unavez

test: ## everything that must hold: lint, all tests with -race on a private PostgreSQL, verify, short fuzz
	@scripts/require.sh
	@scripts/with-services.sh scripts/test.sh

race: ## the tests with -race alone
	@scripts/with-services.sh bash -c 'for m in $$(scripts/modules.sh); do (cd $$m && go test -race -count=1 ./...); done'

fuzz: ## each fuzz target for FUZZTIME=60s
	@scripts/fuzz.sh each $(FUZZTIME)

bench: ## goals against a naive handler; QUICK=1 for five goals in under 3 minutes
	@scripts/with-services.sh go run ./internal/bench $(if $(QUICK),-quick)

prove: ## the long proofs in full size, seeds printed; NAME=… for one
	@scripts/with-services.sh go run ./internal/prove $(NAME)

lint: ## gofmt, go vet, staticcheck, the libc pin
	@scripts/lint.sh

vulncheck: ## known vulnerabilities that the code reaches; GOVULNDB=module or file:///… where the public database is out of reach
	@scripts/vulncheck.sh

verify: ## promises, links, dependencies, generated files; STRICT=1 also wants a test for each promise
	@go run ./internal/verify

generate: ## write the generated files anew
	@go run ./internal/verify -write

demo: ## see it work: simulator, shop, faults and kills, compared at the end
	@go run ./cmd/unavez demo --once

services: ## a private PostgreSQL that stays up, for work by hand
	@scripts/services.sh start

services-stop: ## stop it and delete its data
	@scripts/services.sh stop

clean: ## delete what was built here
	@scripts/services.sh stop >/dev/null
	@rm -rf bin .cache coverage.out
