#!/usr/bin/env bash
# Asks a real controller whatever its own OpenAPI description allows, and much that it does not: no 5xx, no undocumented
# answer, no body that does not match its schema. Needs `schemathesis` on the PATH (`make test` installs it).
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
target/debug/slotkeeper dev --data-dir "$work/dev" --listen 127.0.0.1:0 >"$work/out" 2>"$work/log" &
controller=$!
trap 'kill "$controller" 2>/dev/null || true; wait "$controller" 2>/dev/null || true; rm -rf "$work"' EXIT

url=
for _ in $(seq 200); do
  url=$(grep -oE 'http://127\.0\.0\.1:[0-9]+' "$work/out" | head -n 1 || true)
  [ -n "$url" ] && curl -fsS -o /dev/null "$url/readyz" 2>/dev/null && break
  kill -0 "$controller" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
  sleep 0.05
done
[ -n "$url" ] || { echo "the controller printed no URL" >&2; cat "$work/log" >&2; exit 1; }

# Something to ask about: a real cluster with a plan.
curl -fsS -o /dev/null -X POST -H 'content-type: text/plain' --data-binary @tests/fixtures/redis/01-3m3r.nodes.txt \
  "$url/v1/clusters/default/import"
curl -fsS -X POST -H 'content-type: application/json' \
  -d '{"add":[{"name":"new-1","host":"127.0.0.1","port":21003}],"reason":"something to ask about"}' \
  "$url/v1/clusters/default/plans" >"$work/plan.json"
plan=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["plan"]["id"])' "$work/plan.json")

ask() { # configuration file, then options
  local config=$1
  shift
  schemathesis --config-file "$config" run "$url/openapi.json" --url "$url" \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
    --mode all --seed "${FUZZ_SEED:-1}" --workers 1 --request-timeout 20 --generation-database none \
    --generation-with-security-parameters false --warnings off --no-color "$@"
}

# Whatever the description allows, most of it about things that are not there.
: >"$work/anything.toml"
ask "$work/anything.toml" --phases examples,coverage --max-examples 5
# The same about things that are: a cluster, its plan, a node, a shard.
cat >"$work/known.toml" <<TOML
[parameters]
cluster = "default"
plan = "$plan"
other = "$plan"
node = "new-1"
shard = "new-1"
action = "a-1"
# Waiting is not what is looked at here: a version that is still to come would be waited for, for 30 s a time.
wait = "100ms"
TOML
ask "$work/known.toml" --phases fuzzing --max-examples "${FUZZ_EXAMPLES:-20}"

kill -0 "$controller" || { echo "the controller ended under test" >&2; cat "$work/log" >&2; exit 1; }
