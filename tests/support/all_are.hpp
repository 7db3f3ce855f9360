// Whether very many elements are what they are to be: gmock's Each writes a text for each of them.
#pragma once

#include <algorithm>
#include <iterator>

namespace hymn::test {

template <class Values, class T>
bool all_are(const Values& values, const T& value) {
  return std::all_of(std::begin(values), std::end(values),
                     [&value](const T& found) { return found == value; });
}

}  // namespace hymn::test
