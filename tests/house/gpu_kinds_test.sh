# cmake/HymnKernels.cmake asks of nvcc only what that nvcc can do.
. "$(dirname -- "$0")/lib.sh"

# kinds_of ARCHITECTURES HELP: the options for an nvcc that says so of itself.
kinds_of() {
  cat >"$scratch/nvcc" <<END
#!/bin/sh
case \$1 in
  --list-gpu-arch) printf 'compute_%s\n' $1 ;;
  --help) echo '$2' ;;
esac
END
  chmod +x "$scratch/nvcc"
  cmake "-DHYMN_NVCC=$scratch/nvcc" -P "$scratch/show.cmake" 2>&1
}
cat >"$scratch/show.cmake" <<END
cmake_minimum_required(VERSION 3.25)
include("$root/cmake/HymnKernels.cmake")
hymn_gpu_options(options)
message("\${options}")
END

# expect_options ARCHITECTURES HELP OPTIONS
expect_options() {
  options=$(kinds_of "$1" "$2") || fail "no options for '$1': $options"
  if [ "$options" != "$3" ]; then fail "for '$1' the options are '$options', not '$3'"; fi
}
ampere='-gencode=arch=compute_80,code=sm_80'
hopper='-gencode=arch=compute_80,code=sm_90'
hopper_alone='-gencode=arch=compute_90,code=sm_90'
blackwell='-gencode=arch=compute_100,code=sm_100'
small='-Xfatbin;-compress-all'
# As CUDA 12.0 and 12.4 do; as 13.0 does; as one to come might.
expect_options '50 75 80 86 90' '' \
  "$ampere;$hopper;-gencode=arch=compute_80,code=compute_80;$small"
expect_options '75 80 90 100 120' '--compress-mode <mode>' \
  "$ampere;$hopper;$blackwell;-gencode=arch=compute_100,code=compute_100;$small;--compress-mode=size"
expect_options '90 100' '' "$hopper_alone;$blackwell;-gencode=arch=compute_100,code=compute_100;$small"
if kinds_of '35 50' '' >"$scratch/said"; then fail 'an nvcc that knows none of them is taken'; fi
tr -s '\n ' ' ' <"$scratch/said" | grep -q 'knows none of' || fail "an nvcc that knows none: $(cat "$scratch/said")"
finish
