// Numbers of bytes.
#pragma once

#include <cstddef>

namespace hymn::test {

constexpr std::size_t KiB = 1024;
constexpr std::size_t MiB = 1024 * KiB;

}  // namespace hymn::test
