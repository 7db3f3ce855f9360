#!/bin/sh
# The command line of scripts/fuzz: what is wrong is refused before anything is built.
. "$(dirname -- "$0")/lib.sh"
expect 2 'usage: scripts/fuzz' "$root/scripts/fuzz" --seconds
expect 2 'usage: scripts/fuzz' "$root/scripts/fuzz" --seconds ten
expect 2 'usage: scripts/fuzz' "$root/scripts/fuzz" --inputs many
expect 2 'usage: scripts/fuzz' "$root/scripts/fuzz" --fast
expect 2 'no fuzz target "html"' "$root/scripts/fuzz" html
finish
