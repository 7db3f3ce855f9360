# scripts/check-leftovers sees each kind of thing that can be left.
. "$(dirname -- "$0")/lib.sh"
check="$root/scripts/check-leftovers"
export TMPDIR="$scratch"
touch -d '1 minute ago' "$scratch/began"

# Other jobs may run on this machine: it is told what must be found, not that nothing else is.
tells() { "$check" "$@" 2>&1 || [ $? -eq 1 ]; }
expect_told() {
  pattern=$1
  shift
  if ! tells "$@" | grep -q -- "$pattern"; then fail "check-leftovers does not tell of '$pattern'"; fi
}
expect_silence() {
  pattern=$1
  shift
  if tells "$@" | grep -- "$pattern"; then fail "check-leftovers tells of '$pattern'"; fi
}

# wait_for_start PROCESS …: until they have become what was started; a shell's child is a shell first.
wait_for_start() {
  for started; do
    for _ in $(seq 300); do
      if [ "$(readlink "/proc/$started/exe")" = "$scratch/left_over_here" ]; then break; fi
      sleep 0.1
    done
  done
}

cp "$(command -v sleep)" "$scratch/left_over_here"
expect_silence left_over_here left_over_here
"$scratch/left_over_here" 60 &
process=$!
wait_for_start "$process"
expect_told "^process $process " other left_over_here
expect_silence left_over_here left_over
kill "$process"
wait "$process" 2>/dev/null || true
expect_silence "^process $process " left_over_here

# With a mark: whatever has it, and nothing else, however it is called.
TEST_RUN=this "$scratch/left_over_here" 60 &
process=$!
TEST_RUN=that "$scratch/left_over_here" 60 &
other=$!
wait_for_start "$process" "$other"
expect_told "^process $process (left_over_here)$" --run this
expect_silence "^process $other " --run this left_over_here
expect_told "^process $other " left_over_here
touch "$scratch/hymn-theirs"
expect_silence hymn-theirs --run this
kill "$other"
wait "$other" 2>/dev/null || true
rm "$scratch/hymn-theirs"
kill "$process"
wait "$process" 2>/dev/null || true
expect_silence process --run this

touch "$scratch/hymn-left" "$scratch/unhymned"
expect_told "^file $scratch/hymn-left$"
expect_told "^file $scratch/hymn-left$" --since "$scratch/began"
expect_silence unhymned
touch -d '1 hour ago' "$scratch/hymn-left"
expect_silence "$scratch/hymn-left" --since "$scratch/began"
expect 1 "^file $scratch/hymn-left$" "$check"
rm "$scratch/hymn-left"

if command -v python3 >/dev/null; then
  TEST_RUN=here python3 -c 'import os, socket, time
memory = os.memfd_create("hymn-left-1")
door = socket.socket(socket.AF_UNIX)
door.bind("\0hymn-left-2")
open(os.environ["TMPDIR"] + "/ready", "w").close()
time.sleep(60)' &
  process=$!
  for _ in $(seq 400); do [ -e "$scratch/ready" ] || sleep 0.1; done
  expect_told "^memory .*hymn-left-1.*(process $process)"
  expect_told "^memory .*hymn-left-1.*(process $process)" --run here
  expect_told '^socket @hymn-left-2' --run here
  expect_silence hymn-left --run elsewhere
  expect_told '^socket @hymn-left-2'
  kill "$process"
  wait "$process" 2>/dev/null || true
  expect_silence hymn-left
fi
finish
