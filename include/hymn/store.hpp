// Key-value stores, through which processes find each other before they have anything better.
//
// The calls are those of torch.distributed's stores, with the same meaning where nothing else is
// said. docs/store.md tells which store is for what, its limits, and what the token protects.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hymn/error.hpp"
#include "hymn/exchange.hpp"
#include "hymn/standard_parts.hpp"
#include "hymn/timeout.hpp"

namespace hymn {

/// Values under keys, both of any bytes. All calls may be made from any thread.
///
/// Errors of all calls: UsageError for a key or value that is too large, StoreError and
/// NetworkError where the store itself fails. A store of one's own implements the do_ functions.
class HYMN_API Store {
 public:
  using Value = std::vector<std::byte>;

  static constexpr std::size_t most_key_bytes = std::size_t{64} << 10;
  static constexpr std::size_t most_value_bytes = std::size_t{16} << 20;

  Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store();

  void set(const std::string& key, std::span<const std::byte> value);
  void set(const std::string& key, std::string_view value);

  /// Waits until the key is there. Throws StoreError, which names it, when the timeout passes first
  /// (of this call or, unset, of the store).
  Value get(const std::string& key, Timeout timeout = {});
  std::string get_text(const std::string& key, Timeout timeout = {});

  /// Adds to a number and returns the sum; a key that is not there counts as 0. The value is the
  /// number in decimal digits. Throws StoreError where there is something else, or the sum does not
  /// fit 64 bits.
  std::int64_t add(const std::string& key, std::int64_t delta);

  /// Sets the key to `desired` if its value is `expected`; or, when `expected` is empty, if it is
  /// not there. Returns the value that is there afterwards, empty if none is.
  Value compare_set(const std::string& key, std::span<const std::byte> expected,
                    std::span<const std::byte> desired);
  std::string compare_set(const std::string& key, std::string_view expected,
                          std::string_view desired);

  /// True if the key was there.
  bool delete_key(const std::string& key);
  /// Whether all are there now.
  bool check(const std::vector<std::string>& keys);
  /// Until all are there, at the same time. Throws StoreError as get() does.
  void wait(const std::vector<std::string>& keys, Timeout timeout = {});
  std::int64_t num_keys();

  /// How long get() and wait() wait unless told otherwise, and how long the store itself may take
  /// to answer. 300 s; Timeout::none() is for ever. Throws UsageError where it is unset.
  void set_timeout(Timeout timeout);
  Timeout timeout() const;

 protected:
  virtual void do_set(const std::string& key, Value value) = 0;
  /// Nothing when the deadline passes; at least one look is taken.
  virtual std::optional<Value> do_get(const std::string& key, Deadline deadline) = 0;
  virtual std::int64_t do_add(const std::string& key, std::int64_t delta) = 0;
  virtual Value do_compare_set(const std::string& key, Value expected, Value desired) = 0;
  virtual bool do_delete(const std::string& key) = 0;
  virtual bool do_check(const std::vector<std::string>& keys) = 0;
  /// The keys that are missing when the deadline passes.
  virtual std::vector<std::string> do_wait(const std::vector<std::string>& keys,
                                           Deadline deadline) = 0;
  virtual std::int64_t do_num_keys() = 0;

 private:
  friend class PrefixStore;
  alignas(8) mutable std::int64_t timeout_ns_;  // by std::atomic_ref alone
};

/// In the memory of one process, for its threads.
class HYMN_API HashStore final : public Store {
 public:
  HashStore();
  ~HashStore() override;

 protected:
  void do_set(const std::string& key, Value value) override;
  std::optional<Value> do_get(const std::string& key, Deadline deadline) override;
  std::int64_t do_add(const std::string& key, std::int64_t delta) override;
  Value do_compare_set(const std::string& key, Value expected, Value desired) override;
  bool do_delete(const std::string& key) override;
  bool do_check(const std::vector<std::string>& keys) override;
  std::vector<std::string> do_wait(const std::vector<std::string>& keys,
                                   Deadline deadline) override;
  std::int64_t do_num_keys() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// In a file that all processes see, which must support locks (local file systems and NFS do).
/// A process that is killed in the middle of a call leaves the store as it was before, or after.
class HYMN_API FileStore final : public Store {
 public:
  /// The file is made, for this user alone, if it is not there. `users`: how many FileStores of
  /// this path there will be in all; the last of them to be destroyed removes the file. 0: it
  /// stays, and whoever opens it later sees what it holds. Throws StoreError where the file cannot
  /// be used, belongs to another user, or is something else.
  explicit FileStore(std::string path, int users = 0);
  ~FileStore() override;

 protected:
  void do_set(const std::string& key, Value value) override;
  std::optional<Value> do_get(const std::string& key, Deadline deadline) override;
  std::int64_t do_add(const std::string& key, std::int64_t delta) override;
  Value do_compare_set(const std::string& key, Value expected, Value desired) override;
  bool do_delete(const std::string& key) override;
  bool do_check(const std::vector<std::string>& keys) override;
  std::vector<std::string> do_wait(const std::vector<std::string>& keys,
                                   Deadline deadline) override;
  std::int64_t do_num_keys() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct TcpStoreOptions {
  std::string host = "127.0.0.1";  ///< the server's: a name or an address
  int port = 0;                    ///< a server's own choice when 0; clients must say which
  bool is_server = false;          ///< this process keeps the values, and uses them, too
  /// 64 hexadecimal digits, the same for all (TcpStore::make_token). Empty: nobody has to prove
  /// anything, which is allowed on the loopback only.
  std::string token{};
  /// To find the server, and the store's timeout().
  Timeout timeout = std::chrono::seconds(300);
};

/// In the memory of one process, the server, for all that reach it over TCP. When the connection to
/// the server is lost every call throws NetworkError at once, those that wait included.
class HYMN_API TcpStore final : public Store {
 public:
  /// A client waits until the server is there. Throws NetworkError when it is not in time, when it
  /// refuses the token, or does not know it itself; UsageError for options that cannot be.
  explicit TcpStore(const TcpStoreOptions& options);
  ~TcpStore() override;

  /// A new secret for one job, from the system's random numbers.
  static std::string make_token();

  /// Where the server listens.
  int port() const;

 protected:
  void do_set(const std::string& key, Value value) override;
  std::optional<Value> do_get(const std::string& key, Deadline deadline) override;
  std::int64_t do_add(const std::string& key, std::int64_t delta) override;
  Value do_compare_set(const std::string& key, Value expected, Value desired) override;
  bool do_delete(const std::string& key) override;
  bool do_check(const std::vector<std::string>& keys) override;
  std::vector<std::string> do_wait(const std::vector<std::string>& keys,
                                   Deadline deadline) override;
  std::int64_t do_num_keys() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Another store, with a prefix before every key: users of one store that do not meet. num_keys()
/// counts the keys of the whole store.
class HYMN_API PrefixStore final : public Store {
 public:
  /// Keys become "prefix/key". Throws UsageError without a store.
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);
  ~PrefixStore() override;

 protected:
  void do_set(const std::string& key, Value value) override;
  std::optional<Value> do_get(const std::string& key, Deadline deadline) override;
  std::int64_t do_add(const std::string& key, std::int64_t delta) override;
  Value do_compare_set(const std::string& key, Value expected, Value desired) override;
  bool do_delete(const std::string& key) override;
  bool do_check(const std::vector<std::string>& keys) override;
  std::vector<std::string> do_wait(const std::vector<std::string>& keys,
                                   Deadline deadline) override;
  std::int64_t do_num_keys() override;

 private:
  std::string full(const std::string& key) const;
  std::vector<std::string> full(const std::vector<std::string>& keys) const;

  std::string prefix_;
  std::shared_ptr<Store> store_;
};

/// An Exchange whose messages lie in a store until they are received, so that World::over can make
/// a world of processes that have nothing but a store. It is for finding each other, not for speed:
/// every message is a few calls of the store. All ranks give stores with the same contents; two
/// exchanges over one store need prefixes of their own (PrefixStore). Errors of the store reach the
/// caller. Throws UsageError where rank and size cannot be.
HYMN_API std::shared_ptr<Exchange> exchange_over(std::shared_ptr<Store> store, int rank, int size);

}  // namespace hymn
