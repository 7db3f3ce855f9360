// Captures what a program communicates, and replays it: docs/functional.md. It belongs to
// libhymn-functional.
#pragma once

#include "hymn/standard.hpp"  // first

#include <span>
#include <vector>

#include "hymn/array.hpp"
#include "hymn/export.hpp"
#include "hymn/functional.hpp"
#include "hymn/program.hpp"
#include "hymn/standard_parts.hpp"

namespace hymn {

class World;

/// A program, and what cannot be data in it.
struct Captured {
  Program program;
  std::vector<functional::Step> steps{};  ///< by ProgramNode::step_number
};

/// Runs the function, on this thread, and keeps which functional collectives and which calls of
/// ProcessGroup it makes, what they take and give, and when it waits. With meta arrays, and in a
/// fake world, nothing is sent.
///
/// What the program computes by itself between them is not seen, unless as functional::apply():
/// what a call takes that no call, view, copy or step has given is an input of the program, in the
/// order in which they come. So is what the function has written into (Array::mutable_data()).
/// Calls of other threads are not captured; UsageError inside another capture.
HYMN_API Captured capture(const std::function<void()>& function);
/// The given arrays are the first inputs, and what the function returns is what the program gives.
/// Otherwise that is what it has made and nothing in it takes.
HYMN_API Captured
capture(std::span<const Array> inputs,
        const std::function<std::vector<Array>(std::span<const Array> inputs)>& function);

/// Makes the calls again, with other inputs of the same shapes and dtypes, on the groups of this
/// world (World::find_or_create_group); all ranks do so. Returns the program's outputs, which may
/// be pending. Meta inputs send nothing. UsageError for inputs that are others, and where steps
/// are missing.
HYMN_API std::vector<Array> replay(const Captured& captured, World& world,
                                   std::span<const Array> inputs);

}  // namespace hymn
