# The work of scripts/check-rooms. Reads cmake/rooms.txt, then CMakeLists.txt files, then sources.

function breach(text) {
  print FILENAME ":" FNR ": " text
  breaches++
}

function begins(text, start) { return substr(text, 1, length(start)) == start }

FNR == 1 {
  folder = FILENAME
  sub(/\/.*/, "", folder)
  room = room_of(FILENAME)
  is_list = FILENAME ~ /CMakeLists\.txt$/
  in_call = 0
  if (!is_list && NR > 1) {
    sources++
    if (FILENAME ~ /\.(cpp|c|cu)$/ && (folder in declares) && !(FILENAME in listed))
      breach("not in SOURCES of " folder "/CMakeLists.txt")
  }
}

# The room that a file or a header is in: the longest of the names of rooms and users that are folders
# above it; empty: none.
function room_of(path,    room) {
  room = path
  while (sub(/\/[^\/]*$/, "", room))
    if (room in kind) return room
  return ""
}

# --- cmake/rooms.txt ---

NR == FNR {
  if ($1 == "room" || $1 == "user") {
    kind[$2] = $1
    place[$2] = ++places
    for (i = 3; i <= NF; i++) opened[$2, $i] = 1
  } else if ($1 == "only") {
    guarded[$2] = 1
    for (i = 3; i <= NF; i++) allowed[$2] = allowed[$2] " " $i
  } else if ($1 == "generated") {
    generated[$2] = 1
  }
  next
}

# --- CMakeLists.txt of a room: hymn_add_room(NAME … ROOMS … SOURCES … SMALL … MPI … LINKS …), and
# hymn_embed_kernels(SOURCE EMBEDDER) ---

is_list {
  line = $0
  sub(/#.*/, "", line)
  if (line ~ /hymn_add_room[ \t]*\(/) {
    sub(/.*hymn_add_room[ \t]*\(/, "", line)
    in_call = 1
    keyword = ""
    declares[folder] = FILENAME ":" FNR
  }
  if (line ~ /hymn_embed_kernels[ \t]*\(/) {
    gsub(/.*\(|\).*/, "", line)
    split(line, words, /[ \t]+/)
    listed[folder "/" words[1]] = 1
  }
  if (!in_call) next
  ends = sub(/\).*/, "", line)
  count = split(line, words, /[ \t]+/)
  for (i = 1; i <= count; i++) {
    word = words[i]
    if (word ~ /^(NAME|ROOMS|SOURCES|SMALL|MPI|LINKS)$/) keyword = word
    else if (word == "") continue
    else if (keyword == "ROOMS") read_room(word)
    else if (keyword ~ /^(SOURCES|SMALL|MPI)$/) listed[folder "/" word] = 1
  }
  if (ends) in_call = 0
  next
}

function read_room(room) {
  declared[folder, room] = FILENAME ":" FNR
  if (kind[room] != "room")
    breach("ROOMS names " room ", which is no room")
  else if (place[room] >= place[folder])
    breach("ROOMS names " room ", which does not stand before " folder)
}

# --- sources ---

/^[ \t]*#[ \t]*include[ \t]*["<]/ {
  header = $0
  sub(/^[ \t]*#[ \t]*include[ \t]*/, "", header)
  quoted = begins(header, "\"")
  header = substr(header, 2)
  sub(/[">].*/, "", header)
  check_place(header)
  path = begins(header, "hymn/") ? "include/" header : header
  first = path
  sub(/\/.*/, "", first)
  # <torch/…> is libtorch, and not the room of that name.
  target = !quoted && is_guarded(header) ? "" : room_of(path)
  if (target != "") check_order(target, first)
  else if (quoted && !is_guarded(header) && !(header in generated) && !is_neighbour(header))
    breach("\"" header "\" is not written from the root of the repository")
}

function may_include(target) {
  if (kind[room] == "user")
    return kind[target] == "room" || target == room || (room, target) in opened
  return place[target] <= place[room]
}

# `first` is the folder of the target at the root.
function check_order(target, first) {
  used[folder, first] = 1
  if (!may_include(target))
    breach(room " must not include " header ": " target " does not stand before it")
  else if (first != folder && first != "include" && (folder in declares) &&
           !((folder, first) in declared) && !((folder, first) in told)) {
    told[folder, first] = 1
    breach("includes " header ", but " folder "/CMakeLists.txt does not name " first " in ROOMS")
  }
}

# Programs and tests may name the headers of their own folder briefly.
function is_neighbour(header) { return kind[folder] == "user" && header !~ /\// }

function is_guarded(header,    prefix) {
  for (prefix in guarded)
    if (begins(header, prefix)) return 1
  return 0
}

function check_place(header,    prefix, count, paths, i) {
  for (prefix in guarded) {
    if (!begins(header, prefix)) continue
    count = split(allowed[prefix], paths, " ")
    for (i = 1; i <= count; i++)
      if (begins(FILENAME, paths[i])) return
    breach("<" header "> may be included only in:" allowed[prefix])
    return
  }
}

END {
  for (pair in declared) {
    split(pair, names, SUBSEP)
    if (!((names[1], names[2]) in used)) {
      print declared[pair] ": ROOMS names " names[2] ", but no source of " names[1] " includes it"
      breaches++
    }
  }
  if (breaches) {
    print breaches " breach" (breaches == 1 ? "" : "es") " of the order of the rooms"
    exit 1
  }
  print sources " sources keep the order of the rooms"
}
