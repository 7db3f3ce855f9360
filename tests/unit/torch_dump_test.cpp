// Dumps for PyTorch's analyser; torch/tests/test_failures.py has that analyser read them.
#include "recorder/flight_dump_torch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "hymn/error.hpp"
#include "recorder/dump_file.hpp"
#include "recorder/flight_dump_pickle.hpp"
#include "tests/support/temporary_folder.hpp"

namespace hymn::test {
namespace {

using namespace std::string_literals;
using Json = nlohmann::ordered_json;

// As pickletools.dis() tells them.
TEST(Pickle, WritesWhatPythonReads) {
  const auto pickled = [](const Json& value) { return pickle(value); };
  EXPECT_EQ(pickled(nullptr), "\x80\x02N."s);
  EXPECT_EQ(pickled(true), "\x80\x02\x88."s);
  EXPECT_EQ(pickled(false), "\x80\x02\x89."s);
  EXPECT_EQ(pickled(-2), "\x80\x02J\xfe\xff\xff\xff."s);
  EXPECT_EQ(pickled(0x7fffffffu), "\x80\x02J\xff\xff\xff\x7f."s);
  EXPECT_EQ(pickled(0x80000000u), "\x80\x02\x8a\x08\0\0\0\x80\0\0\0\0."s);
  EXPECT_EQ(pickled(std::int64_t{-1} << 40), "\x80\x02\x8a\x08\0\0\0\0\0\xff\xff\xff."s);
  EXPECT_EQ(pickled(~std::uint64_t{0}), "\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0."s);
  EXPECT_EQ(pickled(-1.5), "\x80\x02G\xbf\xf8\0\0\0\0\0\0."s);
  EXPECT_EQ(pickled("\u00e9"), "\x80\x02X\x02\0\0\0\xc3\xa9."s);
  EXPECT_EQ(pickled(Json::array({nullptr, Json::array()})), "\x80\x02](N](ee."s);
  EXPECT_EQ(pickled(Json{{"a", Json::object()}}), "\x80\x02}(X\x01\0\0\0a}(uu."s);
}

/// What rank 2 of three tells, of which the group "7" has 2 and 1.
Json dump_of(const Json& entry) {
  return {{"rank", 2},
          {"pg_config",
           {{"0", {{"desc", "default_pg"}, {"ranks", {0, 1, 2}}}},
            {"7", {{"desc", "pair"}, {"ranks", {2, 1}}}},
            {"9", {{"desc", "not known"}, {"ranks", nullptr}}}}},
          {"entries", Json::array({entry})}};
}

Json call_of(const std::string& group, const std::string& op, const Json& inputs,
             const Json& outputs) {
  const auto dtypes = [](const Json& sizes) { return Json(sizes.size(), "float32"); };
  return {{"process_group", {group, "…"}},
          {"op", op},
          {"is_p2p", op == "send" || op == "recv"},
          {"peer", 1},
          {"p2p_seq_id", 5},
          {"input_sizes", inputs},
          {"input_dtypes", dtypes(inputs)},
          {"output_sizes", outputs},
          {"output_dtypes", dtypes(outputs)},
          {"state", "started"},
          {"time_discovered_started_ns", nullptr},
          {"frames", Json::array()}};
}

Json only_entry(const Json& call) {
  const Json told = torch_dump(dump_of(call));
  return told.at("entries").size() == 1 ? told.at("entries").at(0) : Json(nullptr);
}

const Json one_of_3 = Json::array({Json::array({3})});
const Json none = Json::array();

TEST(TorchDump, TellsGroupsWhoseMembersAreKnown) {
  const Json told = torch_dump(dump_of(call_of("9", "barrier", none, none)));
  EXPECT_EQ(told.at("version"), "2.10");
  EXPECT_EQ(told.at("pg_config").size(), 2u);
  EXPECT_EQ(told.at("pg_config").at("7"),
            (Json{{"name", "7"}, {"desc", "pair"}, {"ranks", "[2,1]"}}));
  EXPECT_TRUE(told.at("entries").empty());
}

TEST(TorchDump, NamesCallsAsC10dDoes) {
  const auto name = [](Json call, bool is_coalesced = false) {
    if (is_coalesced) call["coalesced"] = true;
    const Json entry = only_entry(call);
    return entry.is_null() ? "none" : entry.at("profiling_name").get<std::string>();
  };
  EXPECT_EQ(name(call_of("0", "all_gather", none, none)), "hymn:all_gather");
  EXPECT_EQ(name(call_of("0", "all_reduce", none, none), true), "hymn:allreduce_coalesced");
  EXPECT_EQ(name(call_of("0", "all_gather", none, none), true),
            "hymn:all_gather_into_tensor_coalesced");
  EXPECT_EQ(name(call_of("0", "scan", none, none)), "none");
  EXPECT_EQ(name(call_of("0", "broadcast", none, none), true), "none");
  // By ranks of the group.
  EXPECT_EQ(name(call_of("7", "send", none, none)), "hymn:send 0->1");
  EXPECT_EQ(name(call_of("7", "recv", none, none)), "hymn:recv 0<-1");
  EXPECT_EQ(name(call_of("0", "send", none, none)), "hymn:send 2->1");
  Json of_any = call_of("7", "recv", none, none);
  of_any["peer"] = -1;
  EXPECT_EQ(name(of_any), "hymn:recv 0<-?");
  Json outside = call_of("7", "send", none, none);
  outside["peer"] = 0;
  EXPECT_EQ(name(outside), "none");
}

TEST(TorchDump, WhatHasOneBufferHasItOnBothSides) {
  for (const std::string op : {"broadcast", "reduce"}) {
    const Json given = only_entry(call_of("0", op, one_of_3, none));
    const Json gotten = only_entry(call_of("0", op, none, one_of_3));
    for (const Json& entry : {given, gotten}) {
      EXPECT_EQ(entry.at("input_sizes"), one_of_3);
      EXPECT_EQ(entry.at("output_sizes"), one_of_3);
      EXPECT_EQ(entry.at("input_dtypes"), entry.at("output_dtypes"));
    }
  }
  EXPECT_EQ(only_entry(call_of("0", "gather", one_of_3, none)).at("output_sizes"), none);
}

TEST(TorchDump, NoMessageHasTheNumberOfACollective) {
  EXPECT_EQ(only_entry(call_of("0", "send", none, none)).at("p2p_seq_id"), (1ull << 32) + 5);
  EXPECT_EQ(only_entry(call_of("0", "barrier", none, none)).at("p2p_seq_id"), 5);
}

TEST(TorchDump, KnowsNoFailures) {
  Json call = call_of("0", "barrier", none, none);
  call["state"] = "failed";
  EXPECT_EQ(only_entry(call).at("state"), "scheduled");
  call["time_discovered_started_ns"] = 5;
  EXPECT_EQ(only_entry(call).at("state"), "started");
}

TEST(TorchDump, EachFrameHasANameAFileAndALine) {
  Json call = call_of("0", "barrier", none, none);
  call["frames"] = {{{"address", "0x1"}, {"name", "main"}, {"filename", "a.cpp"}, {"line", 7}},
                    {{"address", "0x2"}, {"module", "liba.so"}, {"offset", "0x5"}},
                    {{"address", "0x3"}}};
  const Json wanted = {{{"name", "main"}, {"filename", "a.cpp"}, {"line", 7}},
                       {{"name", "0x2"}, {"filename", "liba.so"}, {"line", 0}},
                       {{"name", "0x3"}, {"filename", "?"}, {"line", 0}}};
  EXPECT_EQ(only_entry(call).at("frames"), wanted);
}

TEST(TorchDump, LiesInAFolderOfItsOwn) {
  namespace fs = std::filesystem;
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path();
  const DumpPlace place{folder / "trace.", DumpFormat::torch};
  const Json dump = dump_of(call_of("0", "barrier", none, none));
  for (int i = 0; i < 2; ++i) {  // there may be one already
    write_dump(place, 2, dump.dump());
    std::ifstream file(folder / "torch" / "trace.2", std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), pickle(torch_dump(dump)));
    EXPECT_TRUE(fs::exists(folder / "trace.2"));
  }
  fs::remove_all(folder / "torch");
  std::ofstream(folder / "torch") << "a file";
  EXPECT_THROW(write_dump(place, 2, dump.dump()), ResourceError);
}

}  // namespace
}  // namespace hymn::test
