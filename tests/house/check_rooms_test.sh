# scripts/check-rooms passes a tree in order, and fails, naming the line, on each kind of breach.
. "$(dirname -- "$0")/lib.sh"

# tree: makes $scratch/tree, in order.
tree() {
  rm -rf "$scratch/tree"
  for folder in cmake include/hymn base topology collectives/mpi tools examples tests; do
    mkdir -p "$scratch/tree/$folder"
  done
  cd "$scratch/tree"
  cp "$root/cmake/rooms.txt" cmake/
  echo '#pragma once' >include/hymn/a.hpp
  echo '#include "hymn/a.hpp"' >base/b.hpp
  printf '#include <hymn/a.hpp>\n#include "base/b.hpp"\n' >topology/t.cpp
  printf '#include <mpi.h>\n#include <vector>\n#include "topology/t.hpp"\n' >collectives/mpi/m.cpp
  printf '#include "tools/x.hpp"\n#include "base/b.hpp"\n' >tools/x.cpp
  echo '#include "tools/x.hpp"' >tests/t.cpp
  echo 'hymn_add_room(NAME base SOURCES b.hpp)' >base/CMakeLists.txt
  printf 'hymn_add_room(\n  NAME topology\n  ROOMS base  # why\n  SOURCES\n    t.cpp)\n' \
    >topology/CMakeLists.txt
  printf 'hymn_add_room(NAME collectives\n  ROOMS topology\n  SOURCES mpi/m.cpp\n  LINKS x)\n' \
    >collectives/CMakeLists.txt
}

check() { expect "$1" "$2" "$root/scripts/check-rooms" "$scratch/tree"; }

tree
check 0 'sources keep the order'

tree
printf '#include <map>\n  #  include "topology/t.hpp"\n' >base/up.hpp
check 1 '^base/up.hpp:2: base must not include topology/t.hpp'

tree
echo '#include <base/b.hpp>' >include/hymn/up.hpp
check 1 '^include/hymn/up.hpp:1: include must not include base/b.hpp'

tree
echo '#include "tools/x.hpp"' >examples/e.cpp
check 1 '^examples/e.cpp:1: examples must not include tools/x.hpp'

tree
echo '#include <mpi.h>' >base/c.hpp
check 1 '^base/c.hpp:1: <mpi.h> may be included only in:'

tree
echo '#include "hwy/highway.h"' >topology/c.hpp
check 1 '^topology/c.hpp:1: <hwy/highway.h> may be included only in:'

tree
echo '#include "t.hpp"' >topology/c.hpp
check 1 '^topology/c.hpp:1: "t.hpp" is not written from the root'

tree
echo '#include "base/b.hpp"' >>collectives/mpi/m.cpp
check 1 '^collectives/mpi/m.cpp:4: .*does not name base in ROOMS'

tree
echo '' >topology/t.cpp
check 1 '^topology/CMakeLists.txt:3: ROOMS names base, but no source'

tree
echo 'hymn_add_room(NAME base ROOMS topology SOURCES b.hpp)' >base/CMakeLists.txt
check 1 '^base/CMakeLists.txt:1: ROOMS names topology, which does not stand before base'

tree
echo 'int x;' >topology/forgotten.cpp
check 1 '^topology/forgotten.cpp:1: not in SOURCES of topology/CMakeLists.txt'

# Kernels are named by what has them compiled.
tree
echo '' >collectives/mpi/k.cu
check 1 '^collectives/mpi/k.cu:1: not in SOURCES of collectives/CMakeLists.txt'
echo 'hymn_embed_kernels(mpi/k.cu mpi/m.cpp)' >>collectives/CMakeLists.txt
check 0 'sources keep the order'

# Folders in a room that cmake/rooms.txt names are rooms of their own, in its order.
tree
mkdir collectives/shm collectives/hierarchical p2p p2p/shm p2p/mpi
echo '#include "collectives/shm/s.hpp"' >collectives/hierarchical/h.hpp
check 1 '^collectives/hierarchical/h.hpp:1: collectives/hierarchical must not include collectives/shm/s.hpp'
echo '#include "collectives/hierarchical/h.hpp"' >collectives/hierarchical/h.hpp
echo '#include "collectives/hierarchical/h.hpp"' >collectives/shm/s.hpp
check 0 'sources keep the order'

# The files of the room around them are a room, too.
echo '#include "collectives/shm/s.hpp"' >collectives/a.hpp
check 1 '^collectives/a.hpp:1: collectives must not include collectives/shm/s.hpp'
echo '#include "collectives/b/b.hpp"' >collectives/a.hpp
echo '#include "collectives/a.hpp"' >collectives/shm/s.hpp
check 0 'sources keep the order'
mkdir -p runtime/mechanisms runtime/world
echo '#include "runtime/world/w.hpp"' >runtime/mechanisms/m.hpp
check 1 '^runtime/mechanisms/m.hpp:1: runtime/mechanisms must not include runtime/world/w.hpp'
echo '#include "runtime/mechanisms/m.hpp"' >runtime/world/w.hpp
: >runtime/mechanisms/m.hpp
mkdir -p runtime/group
echo '#include "runtime/world/w.hpp"' >runtime/group/g.hpp
check 1 '^runtime/group/g.hpp:1: runtime/group must not include runtime/world/w.hpp'
echo '#include "runtime/group/g.hpp"' >runtime/world/w.hpp
: >runtime/group/g.hpp
echo '#include <mpi.h>' >p2p/mpi/p.hpp
: >runtime/mechanisms/m.hpp
check 0 'sources keep the order'

# A name is that of a folder, not of all that begin so.
tree
mkdir collectives/shm collectives/shm_base
echo '#include "collectives/shm/s.hpp"' >collectives/shm_base/b.hpp
check 1 '^collectives/shm_base/b.hpp:1: collectives/shm_base must not include collectives/shm/s.hpp'

# Files in such a folder are read once.
tree
mkdir collectives/reduce
echo '#include "collectives/launch/l.hpp"' >collectives/reduce/r.hpp
check 1 '^1 breach of the order'

# What groups are made by does not know what one mechanism is made of.
tree
mkdir -p runtime/mechanisms
for header in nccl/channel shm/areas staged/staged; do
  echo "#include \"collectives/$header.hpp\"" >runtime/mechanisms/mechanism.hpp
  check 1 "^runtime/mechanisms/mechanism.hpp:1: <collectives/$header.hpp> may be included only in:"
done

# MPI in one transport's folder only.
tree
mkdir -p p2p/shm
echo '#include <mpi.h>' >p2p/shm/p.hpp
check 1 '^p2p/shm/p.hpp:1: <mpi.h> may be included only in:'

mkdir "$scratch/empty"
expect 2 'no cmake/rooms.txt' "$root/scripts/check-rooms" "$scratch/empty"

expect 0 'sources keep the order' "$root/scripts/check-rooms" "$root"
finish

# A third party's headers may begin as a room of that name does.
tree
echo '#include <torch/types.h>' >include/hymn/torch.hpp
check 0 'sources keep the order'
echo '#include "torch/csrc/own.hpp"' >>include/hymn/torch.hpp
check 1 '^include/hymn/torch.hpp:2: include must not include torch/csrc/own.hpp'
