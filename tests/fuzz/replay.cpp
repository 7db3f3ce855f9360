// Gives a fuzz target what is known to be of interest, without a fuzzer: all files in the folders
// that are named, and each of them cut off in its middle.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

/// An input of its own, so that a sanitizer sees whoever reads beyond its end.
void try_input(const std::vector<std::uint8_t>& bytes) {
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::vector<std::uint8_t> read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) {
  int inputs = 0;
  try_input({});
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      std::vector<std::uint8_t> bytes = read(entry.path());
      std::printf("%s\n", entry.path().c_str());
      try_input(bytes);
      bytes.resize(bytes.size() / 2);
      bytes.shrink_to_fit();
      try_input(bytes);
      ++inputs;
    }
  std::printf("%d inputs, none of which did harm\n", inputs);
  return inputs > 0 ? 0 : 1;
}
