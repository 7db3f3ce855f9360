// Checks that a call is refused or fails with the right kind of error and the right words.
#pragma once

#include <functional>
#include <initializer_list>
#include <source_location>
#include <string>
#include <string_view>

#include "hymn/hymn.hpp"

namespace hymn::test {

using Words = std::initializer_list<std::string_view>;

/// `call` must throw an Error of this kind, of the class that belongs to the kind, with all of
/// `words` in its text. Returns the text.
std::string expect_error(ErrorKind kind, const std::function<void()>& call, Words words = {},
                         std::source_location where = std::source_location::current());

/// Every rank of `group` makes the same faulty `call`: the error must name rank, group and
/// `operation`, and nothing may have been sent, so that the group goes on as if nothing had
/// happened.
void expect_refused(ProcessGroup& group, ErrorKind kind, std::string_view operation,
                    const std::function<void()>& call, Words words = {},
                    std::source_location where = std::source_location::current());

/// What `call` throws as text, or "" when it throws nothing: for the cases where both are right.
std::string error_text(const std::function<void()>& call);

}  // namespace hymn::test
