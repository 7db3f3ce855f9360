// gRPC's part in bench/rpc/run, with all that is in its favour: two processes and a Unix socket;
// messages are bytes as they come (no protobuf), sent from where they lie, and read where they
// arrive; calls wait on a completion queue of their own thread. Compiled by bench/rpc/run.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "bench/rpc/cases.hpp"

namespace rpc_bench {
namespace {

std::atomic<std::uint64_t> empty_calls{0};

/// A word of a message that arrives in many pieces.
std::uint64_t word_at(const std::vector<grpc::Slice>& pieces, std::size_t byte) {
  std::uint64_t word = 0;
  auto* to = reinterpret_cast<unsigned char*>(&word);
  std::size_t left = sizeof(word);
  for (const grpc::Slice& piece : pieces) {
    if (byte >= piece.size()) {
      byte -= piece.size();
      continue;
    }
    const std::size_t part = std::min(left, piece.size() - byte);
    std::memcpy(to, piece.begin() + byte, part);
    to += part;
    left -= part;
    byte = 0;
    if (left == 0) return word;
  }
  throw std::runtime_error("a message is too short");
}

std::uint64_t read_word(const grpc::ByteBuffer& message, std::size_t byte = 0) {
  std::vector<grpc::Slice> pieces;
  if (!message.Dump(&pieces).ok()) throw std::runtime_error("a message cannot be read");
  return word_at(pieces, byte);
}

grpc::ByteBuffer word_message(std::uint64_t word) {
  const grpc::Slice slice(&word, sizeof(word));
  return {&slice, 1};
}

/// One call that is served, and then the next by another.
class Served {
 public:
  Served(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue)
      : service_(service), queue_(queue) {
    service.RequestCall(&context_, &stream_, &queue, &queue, this);
  }
  void go_on(bool good) {
    switch (state_) {
      case State::asked:
        if (!good) break;  // the server ends
        new Served(service_, queue_);
        state_ = State::read;
        return stream_.Read(&request_, this);
      case State::read:
        state_ = State::answered;
        return stream_.WriteAndFinish(answer(), grpc::WriteOptions(), grpc::Status::OK, this);
      case State::answered:
        break;
    }
    delete this;
  }

 private:
  enum class State { asked, read, answered };

  grpc::ByteBuffer answer() {
    if (context_.method() == "/bench/seen") return word_message(empty_calls);
    if (context_.method() == "/bench/take") {
      std::vector<grpc::Slice> pieces;
      if (!request_.Dump(&pieces).ok()) return word_message(0);
      return word_message(answer_to(word_at(pieces, 0), word_at(pieces, payload_bytes / 2),
                                    word_at(pieces, payload_bytes - sizeof(std::uint64_t))));
    }
    ++empty_calls;
    const grpc::Slice nothing;
    return {&nothing, 1};
  }

  grpc::AsyncGenericService& service_;
  grpc::ServerCompletionQueue& queue_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  grpc::ByteBuffer request_;
  State state_ = State::asked;
};

/// Serves until the other end of `until` is closed; a byte to `ready` says that it does.
void serve(const std::string& address, int ready, int until) {
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterAsyncGenericService(&service);
  const std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  new Served(service, *queue);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(2u, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back([&] {
      void* tag = nullptr;
      for (bool good = false; queue->Next(&tag, &good);) static_cast<Served*>(tag)->go_on(good);
    });
  char byte = 1;
  if (::write(ready, &byte, 1) != 1) std::abort();
  while (::read(until, &byte, 1) > 0) {
  }
  server->Shutdown();
  queue->Shutdown();
  for (std::thread& thread : threads) thread.join();
}

class GrpcCaller final : public Caller {
 public:
  explicit GrpcCaller(const std::shared_ptr<grpc::Channel>& channel) : stub_(channel) {
    std::ranges::fill(words_, 7);
  }
  ~GrpcCaller() override {
    queue_.Shutdown();
    void* tag = nullptr;
    for (bool good = false; queue_.Next(&tag, &good);) {
    }
  }
  void empty() override { call("/bench/nothing", nothing_); }
  void empty_in_flight(int calls) override {
    std::vector<std::unique_ptr<Call>> made;
    for (int i = 0; i < calls; ++i) made.push_back(begin("/bench/nothing", nothing_));
    for (int i = 0; i < calls; ++i) (void)next();
  }
  std::uint64_t take() override { return read_word(call("/bench/take", payload_message())); }
  std::uint64_t seen() { return read_word(call("/bench/seen", nothing_)); }
  Words payload() override { return words_; }

 private:
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer answer;
    grpc::Status status;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  };

  grpc::ByteBuffer payload_message() const {
    const grpc::Slice slice(words_.data(), payload_bytes, grpc::Slice::STATIC_SLICE);
    return {&slice, 1};
  }
  std::unique_ptr<Call> begin(const char* method, const grpc::ByteBuffer& request) {
    auto made = std::make_unique<Call>();
    made->reader = stub_.PrepareUnaryCall(&made->context, method, request, &queue_);
    made->reader->StartCall();
    made->reader->Finish(&made->answer, &made->status, made.get());
    return made;
  }
  /// The one that has ended next.
  Call& next() {
    void* tag = nullptr;
    bool good = false;
    if (!queue_.Next(&tag, &good) || !good) throw std::runtime_error("a call has not ended");
    Call& ended = *static_cast<Call*>(tag);
    if (!ended.status.ok()) throw std::runtime_error(ended.status.error_message());
    return ended;
  }
  grpc::ByteBuffer call(const char* method, const grpc::ByteBuffer& request) {
    const std::unique_ptr<Call> made = begin(method, request);
    return next().answer;
  }

  static grpc::ByteBuffer make_nothing() {
    const grpc::Slice nothing;
    return {&nothing, 1};
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  const grpc::ByteBuffer nothing_ = make_nothing();
  std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(payload_words);
};

class GrpcPeer final : public Peer {
 public:
  explicit GrpcPeer(const std::string& address)
      : channel_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {}
  std::unique_ptr<Caller> make_caller() override { return std::make_unique<GrpcCaller>(channel_); }
  std::uint64_t seen() override { return GrpcCaller(channel_).seen(); }

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace
}  // namespace rpc_bench

int main(int argc, char** argv) {
  const rpc_bench::Options options = rpc_bench::options_of(argc, argv);
  const std::string path = "/tmp/bench-rpc-grpc-" + std::to_string(::getpid());
  const std::string address = "unix:" + path;
  int ready[2];
  int until[2];
  if (::pipe(ready) != 0 || ::pipe(until) != 0) return 1;
  const pid_t child = ::fork();  // before gRPC has threads
  if (child == 0) {
    ::close(until[1]);
    rpc_bench::serve(address, ready[1], until[0]);
    return 0;
  }
  ::close(ready[1]);
  char byte = 0;
  int status = 1;
  if (::read(ready[0], &byte, 1) == 1) {
    rpc_bench::GrpcPeer peer(address);
    status = rpc_bench::measure(peer, options);
  }
  ::close(until[1]);
  ::waitpid(child, nullptr, 0);
  ::unlink(path.c_str());
  return status;
}
