# scripts/phase says in a few lines what a command does, and shows what went wrong.
. "$(dirname -- "$0")/lib.sh"
phase="$root/scripts/phase"
log="$scratch/logs/phase.log"

expect 0 'Building: about 2 s' "$phase" "$log" Building 'about 2 s' sh -c 'echo much; echo text >&2'
if printf '%s\n' "$output" | grep -q '^much$\|^text$'; then fail "the output is shown: $output"; fi
if [ "$(cat "$log")" != "much
text" ]; then fail "the log holds: $(cat "$log")"; fi
expect 0 'Building: done in [0-9]* s' "$phase" "$log" Building 'about 2 s' true
expect 3 'Building: FAILED after' "$phase" "$log" Building 'about 2 s' sh -c 'seq 50; exit 3'
expect 3 '^50$' "$phase" "$log" Building 'about 2 s' sh -c 'seq 50; exit 3'
if printf '%s\n' "$output" | grep -q '^20$'; then fail "more than the end is shown: $output"; fi
finish
