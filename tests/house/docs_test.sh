# README's index names every page of docs, and every link from one page to another leads somewhere.
. "$(dirname -- "$0")/lib.sh"
cd "$root"

pages=0
for page in docs/*.md; do
  pages=$((pages + 1))
  grep -qF "($page)" README.md || fail "README does not name $page"
done
[ "$pages" -ge 25 ] || fail "only $pages pages found"

# The heading of a page as links name it: lower case, spaces as hyphens, most other signs left out.
has_heading() {
  sed -n 's/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' | tr -d "'\`.,:;?!()/" | tr ' ' '-' |
    grep -qxF -- "$2"
}

links=0
for page in README.md CONTRIBUTING.md docs/*.md docs/models/*.md; do
  folder=$(dirname "$page")
  for link in $(grep -oE '\]\([^() ]+\)' "$page" | sed 's/^](//; s/)$//'); do
    case "$link" in http*) continue ;; esac
    links=$((links + 1))
    file=$page
    if [ -n "${link%%#*}" ]; then file=$folder/${link%%#*}; fi
    if [ ! -e "$file" ]; then
      fail "$page: $link leads nowhere"
      continue
    fi
    case "$link" in
      *'#'*) has_heading "$file" "${link#*#}" || fail "$page: $link: no such heading" ;;
    esac
  done
done
[ "$links" -ge 100 ] || fail "only $links links found"
finish
