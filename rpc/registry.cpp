#include "rpc/registry.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/fnv.hpp"
#include "hymn/error.hpp"

namespace hymn::rpc::detail {
namespace {

std::string type_text(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return name ? name.get() : type.name();
}

}  // namespace

Answer::~Answer() = default;

std::uint64_t Signature::number() const {
  std::uint64_t number = fnv_offset;
  for (const std::type_info* type : types)
    number = fnv_1a(std::string_view("", 1), fnv_1a(type->name(), number));  // with the 0 behind it
  return number;
}

std::string Signature::text() const {
  std::string text = type_text(*types.front()) + " (";
  for (std::size_t i = 1; i < types.size(); ++i) text += (i > 1 ? ", " : "") + type_text(*types[i]);
  return text + ")";
}

void add_function(std::string name, Signature signature, Handler handler,
                  const std::source_location& where) {
  const std::string_view path = where.file_name();
  KnownFunction function{
      .signature = std::move(signature),
      .handler = std::move(handler),
      .site = fmt::format("{}:{}", path.substr(path.rfind('/') + 1), where.line())};
  function.type = function.signature.number();
  Registry::instance().add(std::move(name), std::move(function));
}

void check_function(std::string_view name, const Signature& signature) {
  const auto known = Registry::instance().find(name);
  if (known && known->type != signature.number())
    throw UsageError(fmt::format("{} is {}, and is called as {}", name, known->signature.text(),
                                 signature.text()),
                     {.remedy = "call it with the types that it is registered with"});
}

Registry& Registry::instance() {
  static Registry registry;
  return registry;
}

void Registry::add(std::string name, KnownFunction function) {
  constexpr std::size_t most_letters = 1024;
  if (name.empty() || name.size() > most_letters)
    throw UsageError(fmt::format("the name of a function has {} letters: 1 to {} are possible",
                                 name.size(), most_letters));
  const std::unique_lock lock(mutex_);
  const auto [found, is_new] =
      functions_.try_emplace(std::move(name), std::make_shared<KnownFunction>(function));
  if (!is_new)
    throw UsageError(fmt::format("a function {} is registered already, at {}", found->first,
                                 found->second->site),
                     {.remedy = "give each function a name of its own"});
}

std::shared_ptr<KnownFunction> Registry::find(std::string_view name) const {
  const std::shared_lock lock(mutex_);
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : found->second;
}

}  // namespace hymn::rpc::detail
