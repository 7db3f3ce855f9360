# scripts/check-models: a model that holds passes, one that does not fails, and so does a fault that
# is not found; a model that cannot be built or be searched to its end is no success either.
. "$(dirname -- "$0")/lib.sh"
if ! command -v spin >/dev/null; then
  echo 'skipped: no spin to check models with'
  exit 77
fi

tree=$scratch/tree
mkdir -p "$tree/scripts" "$tree/docs"
cp "$root/scripts/check-models" "$tree/scripts/"
cp -R "$root/docs/models" "$tree/docs/"
check=$tree/scripts/check-models
model=$tree/docs/models/growth.pml

# with LINE …: the model with these before its first.
with() {
  { printf '%s\n' "$@"; cat "$root/docs/models/growth.pml"; } >"$model"
}

expect 0 '^1 models hold, 4 faults found$' "$check" growth
with '#ifdef RELAXED_STORE' '#undef RELAXED_STORE' '#else' '#define OWN_COUNTS' '#endif'
expect 1 '^growth  *- .* BROKEN: a wrong value$' "$check" growth
printf '%s\n' "$output" | grep -q '^growth  *RELAXED_STORE .* BROKEN: the fault is not found$' ||
  fail "a fault that is not found passes: $output"
with '#error'
expect 1 'BROKEN: cannot be built$' "$check" growth
sed 's/^megabytes=1024 /megabytes=1 /' "$root/scripts/check-models" >"$check"
with ''
expect 1 '^growth  *- .* BROKEN: not searched to the end$' "$check" growth

expect 2 'there is no model "nonsense"' "$check" nonsense
expect 2 'there is no model "--fast"' "$check" --fast
finish
