# What `ctest --output-junit` has written: of a line, its text and its attributes. For the scripts that
# are given to awk behind it.

function unescape(text) {
  gsub(/&lt;/, "<", text)
  gsub(/&gt;/, ">", text)
  gsub(/&quot;/, "\"", text)
  gsub(/&apos;/, "'", text)
  gsub(/&amp;/, "\\&", text)
  return text
}

function attribute(name,    text) {
  if (!match($0, name "=\"[^\"]*\"")) return ""
  text = substr($0, RSTART, RLENGTH)
  sub(/^[^"]*"/, "", text)
  sub(/"$/, "", text)
  return unescape(text)
}
