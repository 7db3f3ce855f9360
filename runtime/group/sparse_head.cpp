#include "runtime/group/sparse_head.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "p2p/call_chain.hpp"
#include "recorder/rank_list.hpp"
#include "runtime/rank/some_names.hpp"

namespace hymn::detail {

namespace {

/// As much of it as there is room for.
template <std::size_t room>
void put(std::array<char, room>& to, std::string_view text) {
  std::ranges::copy(text.substr(0, room - 1), to.begin());
}

/// Ranks that say the same are named together: "ranks 0,2: …; rank 1: …".
std::string in_words(std::span<const SparseHead> heads, const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  std::vector<bool> is_told(heads.size());
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (is_told[i]) continue;
    std::vector<int> who;
    for (std::size_t j = i; j < heads.size(); ++j) {
      if (heads[j].text != heads[i].text) continue;
      who.push_back(ranks[j]);
      is_told[j] = true;
    }
    std::ranges::sort(who);  // those of a split are in the order of their keys
    parts.push_back(fmt::format("{} {}: {}", who.size() == 1 ? "rank" : "ranks", pack_ranks(who),
                                heads[i].text.data()));
  }
  return some_of(std::move(parts));
}

/// No defence against who wants two lists to have the same.
std::uint64_t signature_of(std::span<const std::uint64_t> keys) {
  std::uint64_t signature = 1;
  for (const std::uint64_t key : keys) signature = mix_in(signature, key);
  return signature;
}

std::uint64_t signature_of(const SparseInput& input, const SparseView& tensor, ReduceKind kind,
                           std::uint64_t declared) {
  std::vector<std::uint64_t> words = {static_cast<std::uint64_t>(input.reducer.dtype),
                                      static_cast<std::uint64_t>(kind),
                                      tensor.sparse_dims,
                                      tensor.shape.size(),
                                      input.declared.size(),
                                      declared};
  words.insert(words.end(), tensor.shape.begin(), tensor.shape.end());
  return signature_of(words);
}

struct Fault {
  SparseHead::Outcome outcome;
  std::string text;
  std::string remedy;
};

Fault fault_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UnsupportedError& unsupported) {
    return {SparseHead::Outcome::unsupported, unsupported.problem(), unsupported.context().remedy};
  } catch (const Error& other) {
    return {SparseHead::Outcome::usage, other.problem(), other.context().remedy};
  } catch (const std::exception& other) {
    return {SparseHead::Outcome::resource, other.what(), {}};
  }
}

[[noreturn]] void throw_as(SparseHead::Outcome outcome, const std::string& text,
                           ErrorContext context) {
  switch (outcome) {
    case SparseHead::Outcome::unsupported:
      throw UnsupportedError(text, std::move(context));
    case SparseHead::Outcome::resource:
      throw ResourceError(text, std::move(context));
    case SparseHead::Outcome::sound:
    case SparseHead::Outcome::usage:
      break;
  }
  throw UsageError(text, std::move(context));
}

void require_marks(std::span<const SparseHead> heads, const std::vector<int>& ranks,
                   ErrorContext context) {
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (heads[i].mark == SparseHead::right_mark) continue;
    context.remedy = "make the same calls, in the same order, on all ranks of the group";
    throw PeerError(fmt::format("what rank {} has sent does not belong to this call", ranks[i]),
                    std::move(context));
  }
}

void require_sound(std::span<const SparseHead> heads, const std::vector<int>& ranks,
                   ErrorContext context) {
  std::vector<SparseHead> faulty;
  std::vector<int> who;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (heads[i].outcome == SparseHead::Outcome::sound) continue;
    faulty.push_back(heads[i]);
    who.push_back(ranks[i]);
  }
  if (faulty.empty()) return;
  context.remedy = faulty.front().remedy.data();
  throw_as(faulty.front().outcome, in_words(faulty, who), std::move(context));
}

}  // namespace

SparseHead head_of(const SparseInput& input, const SparseView& tensor, ReduceKind kind) {
  const std::uint64_t declared = signature_of(input.declared);
  SparseHead head{.entries = input.keys.size(),
                  .signature = signature_of(input, tensor, kind, declared)};
  std::string text =
      fmt::format("{} {} with {} sparse dimension{}, {}", to_string(tensor.values.dtype),
                  shape_text(tensor.shape), tensor.sparse_dims, tensor.sparse_dims == 1 ? "" : "s",
                  to_string(kind));
  if (!input.declared.empty())
    text += fmt::format(", {} declared indices ({:08x})", input.declared.size(),
                        static_cast<std::uint32_t>(declared));
  put(head.text, text);
  return head;
}

SparseHead head_of(const std::exception_ptr& fault) {
  const Fault found = fault_of(fault);
  SparseHead head{.outcome = found.outcome};
  put(head.text, found.text);
  put(head.remedy, found.remedy);
  return head;
}

void require_agreement(std::span<const SparseHead> heads, const std::vector<int>& ranks,
                       const ErrorContext& context) {
  require_marks(heads, ranks, context);
  require_sound(heads, ranks, context);
  const auto differs = [&](const SparseHead& head) {
    return head.signature != heads.front().signature;
  };
  if (std::ranges::none_of(heads, differs)) return;
  ErrorContext full = context;
  full.remedy =
      "give tensors of one shape and dtype, the same reduction and the same declared indices on "
      "all ranks";
  std::string told = in_words(heads, ranks);
  const bool all_say_the_same = std::ranges::all_of(
      heads, [&heads](const SparseHead& head) { return head.text == heads.front().text; });
  if (all_say_the_same) told += " and so on, where they differ";
  throw UsageError("sparse tensors differ: " + told, std::move(full));
}

}  // namespace hymn::detail
