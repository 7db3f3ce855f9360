#!/bin/sh
# Steps of training on the torch of a Python environment, whose kernels and net are the same for both:
# with hymn::torch::DistributedDataParallel (bench_training, compiled for that torch), and with torch's
# own on Gloo (torch_ddp_gloo.py). Both run in turns; what is built is in build/bench/.
#   bench/training_beside_gloo.sh PYTHON [RANKS…]     (default: 2 4 ranks)
#   TURNS=5 in the environment: so many runs of each
set -eu
CDPATH='' cd -- "$(dirname -- "$0")/.."
if [ $# -eq 0 ]; then
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0" >&2
  exit 2
fi
python=$1
shift
if [ $# -eq 0 ]; then set -- 2 4; fi

scripts/build release hymn hymn_training
mkdir -p build/bench
program=build/bench/training_wheel
torch=$("$python" -c 'import torch; print(torch.__path__[0])')
abi=$("$python" -c 'import torch; print(int(torch.compiled_with_cxx11_abi()))')
# fmt as headers, in this ABI; libraries of hymn's that have their own find its symbols here, too.
"${CXX:-g++}" -std=c++20 -O2 -DNDEBUG -DFMT_HEADER_ONLY "-D_GLIBCXX_USE_CXX11_ABI=$abi" \
  -I. -Iinclude -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include" \
  bench/training.cpp -o "$program" -Lbuild/lib "-Wl,-rpath,$PWD/build/lib" -lhymn-training -lhymn \
  "-L$torch/lib" "-Wl,-rpath,$torch/lib" -Wl,--allow-shlib-undefined -ltorch_cpu -lc10

turn=0
while [ "$turn" -lt "${TURNS:-1}" ]; do
  turn=$((turn + 1))
  for ranks in "$@"; do
    date -u '+%Y-%m-%d %H:%M UTC'
    scripts/mpirun -n "$ranks" "$program"
    "$python" bench/torch_ddp_gloo.py --ranks "$ranks"
  done
done
