"""hymn/torch.hpp with the libtorch of this wheel, whose C++ ABI may not be the system's."""

import os
import shutil
import subprocess
import tempfile
import unittest

import torch
from torch.utils import cpp_extension

import hymn_torch

HERE = os.path.dirname(os.path.abspath(__file__))
HYMN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(hymn_torch.__file__))), "hymn")


class Libtorch(unittest.TestCase):
    @unittest.skipIf(os.environ.get("TORCH_SANITIZE"), "it is linked without the sanitizers")
    def test_a_program_of_cpp_trains(self):
        compiler = shutil.which("g++")
        library = os.path.join(HYMN, "lib")
        if compiler is None:
            self.skipTest("there is no g++")
        if not os.path.exists(os.path.join(library, "libhymn-training.so")):
            self.skipTest("libhymn-training is not built: it needs libeigen3-dev")
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "ddp")
            torch_libraries = cpp_extension.library_paths()
            subprocess.run(
                [compiler, "-std=c++20", "-O0", os.path.join(HERE, "libtorch_ddp.cpp"), "-o", program,
                 f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
                 f"-I{os.path.join(HYMN, 'include')}",
                 *(word for path in cpp_extension.include_paths() for word in ("-isystem", path)),
                 *(f"-L{path}" for path in [library, *torch_libraries]),
                 *(f"-Wl,-rpath,{path}" for path in [library, *torch_libraries]),
                 "-lhymn-training", "-lhymn", "-ltorch_cpu", "-lc10"],
                check=True, timeout=300)
            ended = subprocess.run([program], capture_output=True, text=True, timeout=120)
            self.assertEqual(ended.returncode, 0, ended.stderr)


if __name__ == "__main__":
    unittest.main()
