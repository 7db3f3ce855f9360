// Arrays of whole numbers that lie in any order of their dimensions, looked at by index.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/array_layout.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"

namespace hymn::test {

/// What an array holds at an index.
using Content = std::function<std::int32_t(const Sizes& index)>;

/// An array of int32 between guards.
class Array {
 public:
  explicit Array(ArrayLayout layout)
      : layout_(std::move(layout)), buffer_(DataType::int32, layout_.count()) {}

  const ArrayLayout& layout() const { return layout_; }
  BufferView view() { return layout_.describe(buffer_.view()); }
  ConstBufferView input() const { return layout_.describe(buffer_.view()); }
  std::int32_t& at(const Sizes& index) {
    return reinterpret_cast<std::int32_t*>(buffer_.data())[layout_.place(index)];
  }
  void fill(const Content& content) {
    layout_.for_each([&](const Sizes& index) { at(index) = content(index); });
  }
  void expect(const Content& content) {
    int wrong = 0;
    layout_.for_each([&](const Sizes& index) {
      if (at(index) != content(index) && ++wrong == 1)
        ADD_FAILURE() << "element " << testing::PrintToString(index) << " is " << at(index)
                      << " and not " << content(index);
    });
    EXPECT_EQ(wrong, 0);
    EXPECT_TRUE(is_intact());
  }
  bool is_intact() const { return buffer_.guards_intact(); }
  void expect_untouched() const { test::expect_untouched(buffer_); }

 private:
  ArrayLayout layout_;
  Buffer buffer_;
};

/// A block for each rank, of one size in all dimensions but the outermost.
class BlockArrays {
 public:
  BlockArrays(Layout form, const ArrayLayout& like, std::vector<std::size_t> outer) : form_(form) {
    std::int64_t all = 0;
    for (const std::size_t size : outer) {
      first_.push_back(all);
      blocks_.push_back(like.with_outer(static_cast<std::int64_t>(size)));
      counts_.push_back(blocks_.back().count());
      all += static_cast<std::int64_t>(size);
    }
    if (form == Layout::list)
      for (const ArrayLayout& block : blocks_) arrays_.emplace_back(block);
    else
      arrays_.emplace_back(like.with_outer(all));
    for (Array& array : arrays_) {
      outputs_.push_back(array.view());
      inputs_.push_back(array.input());
    }
  }
  BlockArrays(const BlockArrays&) = delete;
  BlockArrays& operator=(const BlockArrays&) = delete;

  OutputBlocks outputs() const {
    if (form_ == Layout::list) return OutputBlocks::list(outputs_);
    return form_ == Layout::equal ? OutputBlocks::equal(outputs_.front())
                                  : OutputBlocks::counted(outputs_.front(), counts_);
  }
  InputBlocks inputs() const {
    if (form_ == Layout::list) return InputBlocks::list(inputs_);
    return form_ == Layout::equal ? InputBlocks::equal(inputs_.front())
                                  : InputBlocks::counted(inputs_.front(), counts_);
  }
  /// `content` of each block, by its indices.
  using BlockContent = std::function<std::int32_t(int block, std::int32_t number)>;
  void fill(const BlockContent& content) {
    for_each([&](int block, const Sizes& index, std::int32_t& element) {
      element = content(block, blocks_[as_size(block)].number(index));
    });
  }
  void expect(const BlockContent& content) {
    for_each([&](int block, const Sizes& index, const std::int32_t& element) {
      EXPECT_EQ(element, content(block, blocks_[as_size(block)].number(index)))
          << "element " << testing::PrintToString(index) << " of block " << block;
    });
    for (Array& array : arrays_) EXPECT_TRUE(array.is_intact());
  }

 private:
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::size_t block = 0; block < blocks_.size(); ++block)
      blocks_[block].for_each([&](const Sizes& index) {
        Sizes at = index;
        if (form_ != Layout::list) at[blocks_[block].outermost()] += first_[block];
        visit(static_cast<int>(block), index, arrays_[form_ == Layout::list ? block : 0].at(at));
      });
  }

  Layout form_;
  std::vector<ArrayLayout> blocks_;
  std::vector<std::int64_t> first_;
  std::vector<std::size_t> counts_;
  std::vector<Array> arrays_;
  std::vector<BufferView> outputs_;
  std::vector<ConstBufferView> inputs_;
};

/// A request of this collective over these buffers, with equal blocks.
inline Request request_over(OpType type, ConstBufferView in, BufferView out, int root = 0) {
  Request request = Request::all_reduce(in, out);
  request.type = type;
  if (has_root(type)) request.peer = root;
  if (traits_of(type).one_buffer) request.inputs = InputBlocks::whole(out);
  if (has_input_blocks(type)) request.inputs = InputBlocks::equal(in);
  if (has_output_blocks(type)) request.outputs = OutputBlocks::equal(out);
  return request;
}

// --- Two layouts that differ

inline bool is_last_rank(const World& world) { return world.rank() == world.size() - 1; }

inline const ArrayLayout channels_last({2, 3, 4, 5}, {0, 2, 3, 1});
inline const ArrayLayout reversed({2, 3, 4, 5}, {3, 2, 1, 0});

inline BufferView with_strides(Array& array, const Sizes& strides) {
  BufferView view = array.view();
  view.strides = strides;
  return view;
}

/// Of an error, in the words of the path that finds it.
inline bool names_both_layouts(const std::string& text) {
  const auto has = [&text](const std::string& words) { return text.find(words) != text.npos; };
  return (has("lie in memory as 0, 2, 3, 1") && has("lie in memory as 3, 2, 1, 0")) ||
         (has("strides [60, 1, 15, 3]") && has("strides [1, 2, 6, 24]"));
}

}  // namespace hymn::test
