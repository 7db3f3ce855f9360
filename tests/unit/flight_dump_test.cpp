// Dumps: what they hold, and how they come into files; the pipe that asks for them.
#include "recorder/flight_dump.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "hymn/hymn.h"
#include "hymn/hymn.hpp"
#include "recorder/call_facts.hpp"
#include "recorder/call_frames.hpp"
#include "recorder/dump_file.hpp"
#include "recorder/dump_pipe.hpp"
#include "recorder/recorder_memory.hpp"
#include "runtime/c_api/c_api.hpp"
#include "runtime/world/world_state.hpp"
#include "tests/support/temporary_folder.hpp"

namespace hymn::test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

CallSide whole(std::uint64_t count, DataType dtype = DataType::float32) {
  CallSide side;
  side.count = count;
  side.buffers = 1;
  side.dtype = dtype;
  side.layout = Layout::whole;
  return side;
}

CallSide blocks(Layout layout, std::uint64_t count, std::uint16_t buffers = 1, bool even = true) {
  CallSide side = whole(count);
  side.layout = layout;
  side.buffers = buffers;
  side.even = even;
  return side;
}

CallRecord call_of(OpType type, CallSide input, CallSide output, int peer = -1) {
  CallRecord call;
  call.type = type;
  call.input = input;
  call.output = output;
  call.peer = peer;
  return call;
}

Json entry_of(const CallRecord& call) {
  RecorderMemory memory({.rank = 4, .world_size = 8, .ring = {.entries = 1}});
  memory.ring().record(call);
  return Json::parse(dump_json(memory.view(), {}))["entries"][0];
}

TEST(FlightDump, WaitsForARecordThatIsBeingWritten) {
  RecorderMemory memory({.rank = 4, .world_size = 8, .ring = {.entries = 4}});
  const std::uint64_t id = memory.ring().claim();
  auto dump = std::async(std::launch::async, [&] { return dump_json(memory.view(), {}); });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  memory.ring().fill(id, call_of(OpType::send, whole(3), {}, 5));
  EXPECT_EQ(Json::parse(dump.get())["entries"].size(), 1u);
}

TEST(FlightDump, DoesNotWaitForEverForARecordThatIsNeverWritten) {
  RecorderMemory memory({.rank = 4, .world_size = 8, .ring = {.entries = 4}});
  memory.ring().claim();
  memory.ring().record(call_of(OpType::barrier, {}, {}));
  EXPECT_EQ(Json::parse(dump_json(memory.view(), {}))["entries"].size(), 1u);
}

TEST(FlightDump, TellsSizes) {
  CallSide shaped = whole(24);
  shaped.dimensions = 3;
  shaped.shape[0] = 2;
  shaped.shape[1] = 3;
  Json entry = entry_of(call_of(OpType::all_reduce, shaped, whole(12, DataType::int8)));
  EXPECT_EQ(entry["input_sizes"], Json::array({{2, 3, 4}}));
  EXPECT_EQ(entry["output_sizes"], Json::array({{12}}));
  EXPECT_EQ(entry["output_dtypes"], Json::array({"int8"}));
  entry = entry_of(call_of(OpType::all_gather, whole(2), blocks(Layout::list, 6, 3)));
  EXPECT_EQ(entry["output_sizes"], Json::parse("[[2],[2],[2]]"));
  EXPECT_EQ(entry["output_dtypes"].size(), 3u);
  entry = entry_of(call_of(OpType::all_gather, whole(2), blocks(Layout::list, 7, 3, false)));
  EXPECT_EQ(entry["output_sizes"], Json::parse("[[7]]"));
  entry = entry_of(call_of(OpType::barrier, {}, {}));
  EXPECT_EQ(entry["input_sizes"], Json::array());
  EXPECT_EQ(entry["output_dtypes"], Json::array());
  // A shape that does not fit its count is not believed.
  shaped.count = 25;
  entry = entry_of(call_of(OpType::all_reduce, shaped, shaped));
  EXPECT_EQ(entry["input_sizes"], Json::parse("[[25]]"));
}

TEST(FlightDump, TellsNoSizesOfMoreBuffersThanAreCounted) {
  constexpr std::uint16_t most = CallSide::most_buffers;
  const CallSide many{.count = 2 * most, .buffers = most, .layout = Layout::list};
  EXPECT_EQ(entry_of(call_of(OpType::all_reduce, many, many))["input_sizes"],
            Json::parse("[[131070]]"));
}

TEST(FlightDump, TellsEveryBufferOfCoalescedCalls) {
  std::array<float, 32> values{};
  const std::array<std::int64_t, 4> four = {2, 2, 2, 2};
  std::array<BufferView, 3> views = {BufferView(values).slice(0, 16),
                                     BufferView(values).slice(16, 6),
                                     BufferView(values).slice(22, 3)};
  const auto entry_with = [&](std::size_t room) {
    const Request whole = Request::all_reduce({}, {});
    Request request = whole;
    const std::array<ConstBufferView, 3> inputs = {views[0], views[1], views[2]};
    request.inputs = InputBlocks::list(inputs);
    request.outputs = OutputBlocks::list(views);
    CallRecord call =
        call_of(OpType::all_reduce, side_of(request.inputs), side_of(request.outputs));
    call.coalesced = true;
    call.own_shapes = has_own_shapes(request.inputs);
    RecorderMemory memory({.rank = 4, .world_size = 8, .ring = {.entries = 1, .counts = room}});
    const std::uint64_t id = memory.ring().claim();
    memory.ring().keep_sizes(id, request);
    memory.ring().fill(id, call);
    return Json::parse(dump_json(memory.view(), {}))["entries"][0];
  };
  Json entry = entry_with(16);
  EXPECT_EQ(entry["profiling_name"], "hymn:all_reduce_coalesced");
  EXPECT_EQ(entry["input_sizes"], Json::parse("[[16],[6],[3]]"));
  EXPECT_EQ(entry["output_sizes"], entry["input_sizes"]);
  EXPECT_EQ(entry["input_dtypes"].size(), 3u);
  views[0].shape = four;
  EXPECT_EQ(entry_with(16)["output_sizes"], Json::parse("[[2,2,2,2],[6],[3]]"));
  EXPECT_EQ(entry_with(11)["input_sizes"], Json::parse("[[16],[6],[3]]")) << "no room for shapes";
  EXPECT_EQ(entry_with(2)["input_sizes"], Json::parse("[[25]]")) << "nor for sizes";
}

TEST(FlightDump, KeepsShapesOfViews) {
  std::array<float, 12> values{};
  BufferView view(values);
  const std::array<std::int64_t, 4> four = {1, 2, 2, 3};
  view.shape = std::span(four).last(2);
  EXPECT_EQ(side_of(OutputBlocks::whole(view)).dimensions, 2);
  EXPECT_EQ(side_of(OutputBlocks::whole(view)).shape[0], 2u);
  view.shape = four;
  EXPECT_EQ(side_of(OutputBlocks::whole(view)).dimensions, 0) << "too many dimensions";
  const std::array<std::int64_t, 2> long_one = {std::int64_t{1} << 40, 0};
  view.shape = long_one;
  EXPECT_EQ(side_of(OutputBlocks::whole(view)).dimensions, 0);
  EXPECT_EQ(side_of(OutputBlocks()).buffers, 0);
  const std::array<BufferView, 2> uneven = {BufferView(values), BufferView(values).slice(0, 3)};
  EXPECT_FALSE(side_of(OutputBlocks::list(uneven)).even);
  EXPECT_EQ(side_of(OutputBlocks::list(uneven)).count, 15u);
  EXPECT_EQ(side_of(OutputBlocks::list(uneven)).buffers, 2);
}

TEST(FlightDump, NamesSendsAndReceives) {
  EXPECT_EQ(entry_of(call_of(OpType::send, whole(1), {}, 6))["profiling_name"], "hymn:send 4->6");
  EXPECT_EQ(entry_of(call_of(OpType::recv, {}, whole(1), 6))["profiling_name"], "hymn:recv 4<-6");
  const Json any = entry_of(call_of(OpType::recv, {}, whole(1), any_source));
  EXPECT_EQ(any["profiling_name"], "hymn:recv 4<-any");
  EXPECT_EQ(any["peer"], -1);
}

TEST(FlightDump, TellsLimits) {
  CallRecord call = call_of(OpType::barrier, {}, {});
  EXPECT_TRUE(entry_of(call)["timeout_ms"].is_null());
  call.timeout_ns = 600'000'000'000;
  EXPECT_EQ(entry_of(call)["timeout_ms"], 600000);
  call.timeout_ns = 1'500'000;
  EXPECT_EQ(entry_of(call)["timeout_ms"], 1.5);
}

TEST(FlightDump, SignaturesDifferWhereCallsDo) {
  const CallRecord base = call_of(OpType::reduce, whole(12), whole(12), 0);
  std::vector<CallRecord> others(6, base);
  others[1].input.count = 13;
  others[2].input.dtype = DataType::float64;
  others[3].kind = ReduceKind::max;
  others[4].peer = 1;
  others[5].type = OpType::broadcast;
  for (std::size_t i = 1; i < others.size(); ++i)
    EXPECT_NE(signature_of(base), signature_of(others[i])) << i;
  others[0].output = {};  // not the root
  others[0].created = 99;
  EXPECT_EQ(signature_of(base), signature_of(others[0]));
  EXPECT_NE(
      signature_of(call_of(OpType::all_to_all, blocks(Layout::equal, 8), blocks(Layout::equal, 8))),
      signature_of(
          call_of(OpType::all_to_all, blocks(Layout::counted, 8), blocks(Layout::counted, 8))));
  // Ranks contribute what they like, but the sum is the same.
  EXPECT_EQ(signature_of(call_of(OpType::all_gather, whole(1), blocks(Layout::counted, 8))),
            signature_of(call_of(OpType::all_gather, whole(7), blocks(Layout::counted, 8))));
  EXPECT_NE(signature_of(call_of(OpType::all_gather, whole(1), blocks(Layout::counted, 8))),
            signature_of(call_of(OpType::all_gather, whole(1), blocks(Layout::counted, 9))));
  EXPECT_EQ(signature_of(call_of(OpType::gather, whole(1), blocks(Layout::list, 8, 4, false), 0)),
            signature_of(call_of(OpType::gather, whole(7), {}, 0)));
}

TEST(FlightDump, TellsWhatElseIsKnown) {
  const RecorderMemory memory({.rank = 0, .world_size = 3, .ring = {.entries = 0}});
  DumpRequest request;
  request.reason = "bytes \xff that are no text";
  request.peers.push_back({2, "dead", "nodeA", 12, "killed by signal 9"});
  request.in_call = {"MPI_Comm_create_group", 99};
  const Json dump = Json::parse(dump_json(memory.view(), request));
  EXPECT_TRUE(dump["reason"].get<std::string>().starts_with("bytes "));
  EXPECT_EQ(dump["peers"][0]["state"], "dead");
  EXPECT_EQ(dump["in_call"]["name"], "MPI_Comm_create_group");
  EXPECT_FALSE(Json::parse(dump_json(memory.view(), {})).contains("in_call"));
}

TEST(FlightDump, TellsWhatIsMade) {
  RecorderMemory memory({.rank = 0, .world_size = 3, .ring = {.entries = 0}});
  const auto dumped = [&] { return Json::parse(dump_json(memory.view(), {})); };
  EXPECT_FALSE(dumped().contains("making"));
  memory.begin_making(4, std::array{0, 2});
  Json making = dumped()["making"];
  EXPECT_EQ(making["kind"], "new_group");
  EXPECT_EQ(making["uid"], 4);
  EXPECT_EQ(making["ranks"], Json::parse("[0,2]"));
  EXPECT_EQ(making["tag"], "");
  EXPECT_TRUE(making["given_up_ns"].is_null());
  EXPECT_LE(making["since_ns"], dumped()["time_ns"]);
  memory.end_making(4, false);
  making = dumped()["making"];
  EXPECT_GE(making["given_up_ns"], making["since_ns"]);
  memory.begin_making(0, std::array{0, 1, 2}, MakingKind::shrink);
  EXPECT_EQ(dumped()["making"]["kind"], "shrink");
  EXPECT_TRUE(dumped()["making"]["given_up_ns"].is_null());
  memory.begin_making(0, std::array{0, 1, 2}, MakingKind::end);
  EXPECT_EQ(dumped()["making"]["kind"], "end");
  std::vector<int> scattered;
  for (int i = 0; i < 200; ++i) scattered.push_back(i * i);
  memory.begin_making(5, scattered, MakingKind::new_group, "hymn:mesh:" + std::string(100, '0'));
  EXPECT_EQ(dumped()["making"]["tag"],
            "hymn:mesh:" + std::string(19, '0') + "…" + std::string(16, '0'));
  EXPECT_TRUE(dumped()["making"]["ranks"].is_null()) << "there are too many";
}

TEST(FlightDump, TellsWhoMovesOnWhatWasStarted) {
  RecorderMemory memory({.rank = 0, .world_size = 3, .ring = {.entries = 4}});
  CallRecord call = call_of(OpType::recv, {}, whole(1), 2);
  call.waited_for = false;
  memory.ring().set_ended(memory.ring().record(call), CallState::failed, true);
  call.on_gpu = true;
  memory.ring().record(call);
  Json dump = Json::parse(dump_json(memory.view(), {}));
  EXPECT_EQ(dump["progress_thread"], false);
  EXPECT_EQ(dump["entries"][0]["waited_for"], false) << "nor until it failed";
  EXPECT_FALSE(dump["entries"][0].contains("on_gpu"));
  EXPECT_EQ(dump["entries"][1]["on_gpu"], true);
  memory.set_progress_thread(true);
  EXPECT_EQ(Json::parse(dump_json(memory.view(), {}))["progress_thread"], true);
}

TEST(FlightDump, TellsOfAFailedGroup) {
  run_ranks(2, [](World& world) {
    ProcessGroup group = world.new_group({0, 1}, {.path = "shm", .algo = "all_reduce_two_shot"});
    group.set_timeout(std::chrono::milliseconds(77'500));
    std::vector<float> values(20'000);
    group.all_reduce(values);
    const BufferView mine =
        BufferView(values).slice(0, values.size() - (world.rank() == 0 ? 1 : 0));
    EXPECT_THROW(group.all_reduce(mine), Error);
    const Json dump = Json::parse(world.flight_record());
    const Json& config = dump["pg_config"]["1"];
    EXPECT_EQ(config["timeout_ms"], 77500);
    EXPECT_EQ(config["collective_seq"], 2);
    EXPECT_EQ(config["completed_seq"], 1);
    EXPECT_EQ(config["aborted"], detail::GroupState::of(group)->health().abort_failure().reason);
    EXPECT_EQ(dump["entries"].back()["state"], "failed");
    EXPECT_EQ(dump["entries"].back()["retired"], true);
    EXPECT_EQ(dump["entries"].back()["timeout_ms"], 77500);
  });
}

TEST(FlightDump, CompletedIsCountedInOrder) {
  run_ranks(2, [](World& world) {
    std::array<float, 4> values{};
    std::array<Work, 3> works;
    for (Work& work : works) work = world.group().all_reduce_async(values);
    world.group().barrier();
    for (Work& work : works) work.wait();
    world.group().barrier_async().wait();
    const GroupLine& line = detail::GroupState::of(world.group())->record().line();
    EXPECT_EQ(line.collectives.load(), 5u);
    EXPECT_EQ(line.completed.load(), 5u);
  });
}

TEST(GroupRegistry, ForgetsTheOldestOfThoseThatHaveEnded) {
  GroupRegistry registry;
  const GroupLine line;
  const std::uint64_t many = GroupRegistry::remembered + 2;
  for (std::uint64_t uid = 0; uid <= many; ++uid) {
    Membership membership;
    membership.uid = uid;
    registry.add(membership, "", "", line);
  }
  for (std::uint64_t uid = 1; uid <= many; ++uid) registry.ended(uid);
  const auto all = registry.all();
  ASSERT_EQ(all.size(), GroupRegistry::remembered + 1);
  EXPECT_EQ(all[0].membership.uid, 0u) << "still there";
  EXPECT_EQ(all[1].membership.uid, 3u);
}

TEST(GroupRegistry, KnowsHowFarThoseThatHaveEndedHadCome) {
  GroupRegistry registry;
  GroupLine line;
  Membership membership;
  membership.uid = 7;
  registry.add(membership, "", "", line);
  line.collectives = 5;
  line.completed = 4;
  registry.ended(7);
  line.collectives = line.completed = 9;  // another group's now
  EXPECT_EQ(registry.mark(7), (GroupMark{7, 5, 4}));
  EXPECT_EQ(registry.all()[0].line.collectives, 5u);
}

TEST(CallSite, OfTheCApiIsItsCaller) {
  const auto on_rank = [](hymnWorld_t world, void*) {
    hymnGroup_t group = nullptr;
    EXPECT_EQ(hymnWorldGroup(world, &group), hymnSuccess);
    EXPECT_EQ(hymnBarrier(group, nullptr), hymnSuccess);
    const Json dump = Json::parse(world->world->flight_record());
    EXPECT_NE(dump["entries"].back()["frames"][0].dump().find("flight_dump_test.cpp"),
              std::string::npos)
        << dump["entries"].back();
    return hymnSuccess;
  };
  EXPECT_EQ(hymnThreadsRun(2, on_rank, nullptr, nullptr), hymnSuccess);
}

[[gnu::noinline]] std::uint64_t where_am_i() {
  return reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
}

[[gnu::always_inline]] inline std::uint64_t inlined_caller() {
  volatile std::uint64_t here = where_am_i();  // or the call could be a jump
  return here;
}

TEST(CallFrames, TellInlinedFunctionsFromInnermostOut) {
  const std::uint64_t here = inlined_caller();
  const auto frames = frames_at(here);
  ASSERT_GE(frames.size(), 2u);
  EXPECT_NE(frames[0].name.find("inlined_caller"), std::string::npos);
  EXPECT_NE(frames[1].name.find("TestBody"), std::string::npos);
  for (const CallFrame& frame : {frames[0], frames[1]}) {
    EXPECT_TRUE(frame.file.ends_with("tests/unit/flight_dump_test.cpp")) << frame.file;
    EXPECT_TRUE(frame.file.starts_with("/")) << frame.file;
    EXPECT_GT(frame.line, 0);
  }
  EXPECT_GT(frames[1].line, frames[0].line);
}

// Their code stands in the function around them; a compiler that inlines nothing leaves it there.
TEST(CallFrames, TellOfLambdasAndLocalClasses) {
  const auto lambda = [](int more) __attribute__((noinline)) {
    return inlined_caller() + static_cast<std::uint64_t>(more);
  };
  struct Local {
    [[gnu::noinline]] static std::uint64_t m() { return inlined_caller(); }
  };
  volatile int none = 0;
  for (const std::uint64_t here : {lambda(none), Local::m()}) {
    const auto frames = frames_at(here);
    ASSERT_GE(frames.size(), 2u);
    EXPECT_NE(frames[0].name.find("inlined_caller"), std::string::npos) << frames[0].name;
    EXPECT_GT(frames[1].line, frames[0].line);
  }
  EXPECT_EQ(frames_at(Local::m())[1].name.find("unsigned"), std::string::npos) << "m is a name";
}

TEST(CallFrames, KnowLittleOfWhatHasNoDebugInformation) {
  const auto frames = frames_at(reinterpret_cast<std::uintptr_t>(&getpid) + 1);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_NE(frames[0].name.find("getpid"), std::string::npos);
  EXPECT_NE(frames[0].module.find("libc"), std::string::npos);
  for (const std::uint64_t nowhere : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    const auto none = frames_at(nowhere);
    ASSERT_EQ(none.size(), 1u);
    EXPECT_EQ(none[0].address, nowhere);
    EXPECT_EQ(none[0].name, "");
  }
  EXPECT_EQ(frames_at(4711, {"/no/such/program", 0}).size(), 1u);
  EXPECT_EQ(frames_at(4711, {"/etc/passwd", 0}).size(), 1u);
}

class DumpFile : public ::testing::Test {
 protected:
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  const std::string base_ = folder_ / "trace_";
};

TEST_F(DumpFile, IsReplacedInOneStep) {
  const std::string path = dump_path(base_, 12);
  EXPECT_TRUE(path.ends_with("/trace_12"));
  write_dump({base_}, 12, "first");
  std::ifstream old(path);
  write_dump({base_}, 12, "second, longer");
  EXPECT_EQ(text_of(path), "second, longer");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(old), {}), "first");
  struct stat status{};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
  EXPECT_EQ(files(), 1u);
}

TEST_F(DumpFile, NeedsItsFolder) {
  EXPECT_THROW(write_dump({folder_ / "none" / "trace_"}, 0, "text"), ResourceError);
  // What cannot be put in its place is not left lying.
  fs::create_directory(dump_path(base_, 1));
  EXPECT_THROW(write_dump({base_}, 1, "text"), ResourceError);
  EXPECT_EQ(files(), 1u);
}

TEST_F(DumpFile, LeavesNothingWhereThereIsNoRoom) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{4096, limit.rlim_max};
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(write_dump({base_}, 1, std::string(100'000, 'x')), ResourceError);
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(files(), 0u);
}

TEST_F(DumpFile, PipeTellsThatSomebodyAsks) {
  std::string path;
  {
    DumpPipe pipe(base_, 3);
    path = pipe.path();
    EXPECT_TRUE(path.ends_with("/trace_3.pipe"));
    struct stat status{};
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_TRUE(S_ISFIFO(status.st_mode));
    EXPECT_EQ(status.st_mode & 0777u, 0600u);
    EXPECT_FALSE(pipe.asked());
    std::ofstream(path) << "1\n";
    EXPECT_TRUE(pipe.asked());
    EXPECT_FALSE(pipe.asked()) << "already told";
    std::ofstream(path) << std::string(5000, '1');
    EXPECT_TRUE(pipe.asked());
    EXPECT_FALSE(pipe.asked());
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(DumpFile, PipeReplacesOnlyPipes) {
  const std::string path = dump_path(base_, 0) + ".pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0644), 0);
  {
    DumpPipe pipe(base_, 0);
    std::ofstream(path) << "1";
    EXPECT_TRUE(pipe.asked());
    // Whoever puts another one there keeps it.
    DumpPipe other(base_, 0);
    std::ofstream(path) << "1";
    EXPECT_FALSE(pipe.asked());
    EXPECT_TRUE(other.asked());
  }
  EXPECT_FALSE(fs::exists(path));
  std::ofstream(path) << "precious";
  EXPECT_THROW(DumpPipe(base_, 0), ResourceError);
  EXPECT_EQ(text_of(path), "precious");
  EXPECT_THROW(DumpPipe((folder_ / "none" / "x").string(), 0), ResourceError);
}

}  // namespace
}  // namespace hymn::test
