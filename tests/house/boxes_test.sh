# The boxes of tests/fixtures are what make_boxes.py makes, no more and no less.
. "$(dirname -- "$0")/lib.sh"
if ! command -v python3 >/dev/null; then
  echo "skipped: there is no python3"
  exit 77
fi

python3 "$root/tests/fixtures/make_boxes.py" "$scratch/boxes"
[ -f "$scratch/boxes/nvswitch8.xml" ] || fail "no boxes were made"
diff -r "$scratch/boxes" "$root/tests/fixtures/boxes" ||
  fail "run tests/fixtures/make_boxes.py tests/fixtures/boxes, and commit what it makes"
expect 1 "make_boxes.py DIRECTORY" python3 "$root/tests/fixtures/make_boxes.py"
finish
