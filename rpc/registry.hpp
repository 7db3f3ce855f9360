// The functions that this process serves.
#pragma once

#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "hymn/rpc_function.hpp"

namespace hymn::rpc::detail {

struct KnownFunction {
  Signature signature;
  std::uint64_t type = 0;
  Handler handler;
  std::string site;  ///< "model.cpp:17"
};

class Registry {
 public:
  static Registry& instance();

  void add(std::string name, KnownFunction function);
  /// Null where there is none of that name.
  std::shared_ptr<KnownFunction> find(std::string_view name) const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, std::shared_ptr<KnownFunction>, std::less<>> functions_;
};

}  // namespace hymn::rpc::detail
