// Attention and its gradient as batches of products, of some heads at a time, whose scores fit into
// the workspace:
//
//   forward    scores = query key^T   ->  weights, logarithms   result = weights value
//   backward   scores = query key^T   ->  weights               to_value = weights^T gradient
//              slopes = gradient value^T  ->  slopes of scores  to_query = slopes key
//                                                               to_key = slopes^T query
//
// Where the scores of one head are too many, some of its queries are taken at a time.
#include <algorithm>
#include <optional>

#include "core/alignment.h"
#include "kernels/attention_shape.h"
#include "kernels/gpu/elementwise/function_text.h"
#include "kernels/gpu/gemm/products.h"

namespace tandem::kernels::gpu {
namespace {

/// The parameters of both kernels. A row belongs to a query: [batches, heads, queries], of which
/// the first query is number `query`. MASKED(x, c) is the score x with key c's mask. Logarithms and
/// mask are those of the first query of the first head from the beginning.
constexpr const char* kParameters =
    "i64 rows, i64 columns, i64 heads, i64 queries, i64 query, i64 causal, double factor, "
    "i64 log_batch, i64 log_head, i64 log_query, "
    "i64 mask_batch, i64 mask_head, i64 mask_query, i64 mask_key";

constexpr const char* kWeights = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), PARAMETERS) {
  const T scale = (T)factor;
  SCRATCH(T)
  ROWS(r, rows) {
    const i64 batch = r / (heads * queries), head = r / queries % heads, own = r % queries;
    const GLOBAL MASK_T* mask =
        AT(MASK_T, 2) + batch * mask_batch + head * mask_head + own * mask_query;
    const i64 visible = causal != 0 ? min(columns, query + own + 1) : columns;
    GLOBAL T* w = AT(T, 0) + r * columns;
    LANES_OF(T, most, -INFINITY)
    LANEWISE(T, x, MASKED(w[c] * scale, c), c, l, visible,
             w[c] = x; most[l] = MAX_OF(most[l], x);)
    JOIN(T, most, MAX_OF)
    const T shift = most[0] == -INFINITY ? (T)0 : most[0];
    LANES_OF(T, total, 0)
    LANEWISE(T, weight, exp_of(w[c] - shift), c, l, visible, w[c] = weight; total[l] += weight;)
    JOIN(T, total, SUM_OF)
    const T share = total[0] != 0 ? (T)1 / total[0] : (T)0;
    LANEWISE(T, weight, w[c] * share, c, l, visible, w[c] = weight;)
    ALONG(c, l, columns - visible) w[visible + c] = 0;
    ONCE AT(T, 1)[batch * log_batch + head * log_head + own * log_query] =
        total[0] != 0 ? most[0] + log(total[0]) : (T)INFINITY;
  }
}
)";

// Scores become weights, and the gradients of the weights those of the scores.
constexpr const char* kSlopes = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), PARAMETERS, MEMORY(3), MEMORY(4), MEMORY(5),
            i64 width, i64 result_batch, i64 result_head, i64 result_query) {
  const T scale = (T)factor;
  SCRATCH(T)
  ROWS(r, rows) {
    const i64 batch = r / (heads * queries), head = r / queries % heads, own = r % queries;
    const GLOBAL MASK_T* mask =
        AT(MASK_T, 2) + batch * mask_batch + head * mask_head + own * mask_query;
    const i64 visible = causal != 0 ? min(columns, query + own + 1) : columns;
    const T logarithm = AT(T, 1)[batch * log_batch + head * log_head + own * log_query];
    const i64 at = batch * result_batch + head * result_head + own * result_query;
    const GLOBAL T* gradient = AT(T, 4) + at;
    const GLOBAL T* result = AT(T, 5) + at;
    GLOBAL T* w = AT(T, 0) + r * columns;
    GLOBAL T* slopes = AT(T, 3) + r * columns;
    LANES_OF(T, mean, 0)
    LANEWISE(T, term, gradient[c] * result[c], c, l, width, mean[l] += term;)
    JOIN(T, mean, SUM_OF)
    const T middle = mean[0];
    LANEWISE(T, weight, exp_of(MASKED(w[c] * scale, c) - logarithm), c, l, visible,
             w[c] = weight; slopes[c] = weight * (slopes[c] - middle) * scale;)
    ALONG(c, l, columns - visible) w[visible + c] = slopes[visible + c] = 0;
  }
}
)";

// A product takes in what a query does not see as zero times it, which is not zero for what is no
// number. Elements that came out so are summed again, over what is seen. Rows are those of the
// queries, or of the keys; `to` and `from` lie as AttentionOperand says.
constexpr const char* kUnseen = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 rows, i64 width, i64 heads, i64 queries, i64 query,
            i64 keys, i64 by_key, i64 to_batch, i64 to_head, i64 to_step, i64 from_batch,
            i64 from_head, i64 from_step) {
  const i64 lines = by_key != 0 ? keys : queries;
  ROWS(r, rows) {
    const i64 at = r / lines, own = r % lines;
    const GLOBAL T* scores = AT(T, 1) + at * queries * keys;
    const GLOBAL T* from = AT(T, 2) + at / heads * from_batch + at % heads * from_head;
    GLOBAL T* to = AT(T, 0) + at / heads * to_batch + at % heads * to_head + own * to_step;
    const i64 begin = by_key != 0 ? max((i64)0, own - query) : 0;
    const i64 end = by_key != 0 ? queries : min(keys, query + own + 1);
    const i64 first = by_key != 0 ? own : own * keys;
    const i64 step = by_key != 0 ? keys : 1;
    ALONG(c, l, width) {
      if (to[c] - to[c] == 0) continue;
      T sum = 0;
      for (i64 i = begin; i < end; ++i) sum += scores[first + i * step] * from[i * from_step + c];
      to[c] = sum;
    }
  }
}
)";

/// Some heads and some of their queries, against the first `columns` keys.
struct Chunk {
  int64_t batch, batches, head, heads, query, queries, columns;

  int64_t rows() const { return batches * heads * queries; }
};

class AttentionKernel : public op::Executable {
 protected:
  AttentionKernel(const Signature& s, int first_operand, const char* body, const char* name,
                  const Device& device)
      : shape_(AttentionShape::of(s, static_cast<size_t>(first_operand))),
        mask_(s, shape_),
        element_(static_cast<int64_t>(size_of(s.inputs[0].dtype))),
        operands_(first_operand, s.inputs),
        products_(products_for(device, s.inputs[0].dtype)),
        rows_(device, text(s, body, name)) {
    if (shape_.causal) {
      unseen_.emplace(device, KernelText{.name = "attention_unseen",
                                         .words = {{"T", type_name(s.inputs[0].dtype)}},
                                         .body = kUnseen});
    }
    const int64_t most = rows_.is_serial() ? int64_t{4} << 20 : int64_t{64} << 20;
    const int64_t row = std::max<int64_t>(1, shape_.keys * element_);
    const int64_t rows = std::max<int64_t>(1, most / row);
    const int64_t queries = std::max<int64_t>(1, shape_.queries);
    queries_ = std::min(queries, rows);
    heads_ = std::clamp<int64_t>(rows / queries, 1, std::max<int64_t>(1, shape_.heads));
    batches_ = heads_ < shape_.heads ? 1
                                     : std::clamp<int64_t>(rows / queries / heads_, 1,
                                                           std::max<int64_t>(1, shape_.batch));
  }

  /// Calls f(chunk, whether it is the first of its heads). The last queries come first, and see all
  /// keys, so that what is added up for each key is begun for all of them.
  template <class F>
  void for_each_chunk(const F& f) const {
    for (int64_t batch = 0; batch < shape_.batch; batch += batches_) {
      for (int64_t head = 0; head < shape_.heads; head += heads_) {
        const int64_t blocks = std::max<int64_t>(1, (shape_.queries + queries_ - 1) / queries_);
        for (int64_t block = blocks; block-- > 0;) {
          const int64_t query = block * queries_;
          const int64_t queries = std::min(queries_, shape_.queries - query);
          const bool is_first = block + 1 == blocks;
          const int64_t columns =
              shape_.causal && !is_first ? std::min(shape_.keys, query + queries) : shape_.keys;
          f(Chunk{batch, std::min(batches_, shape_.batch - batch), head,
                  std::min(heads_, shape_.heads - head), query, queries, columns},
            is_first);
        }
      }
    }
  }

  /// The largest chunk's scores.
  size_t scores_bytes() const {
    return core::aligned(static_cast<size_t>(
        std::max<int64_t>(1, batches_ * heads_ * queries_ * shape_.keys) * element_));
  }

  /// The largest workspace that any of a chunk's products needs.
  template <class... Shapes>
  size_t products_bytes(const Shapes&... shapes) const {
    return std::max({products_->workspace_bytes(shapes)...});
  }

  // Products of a chunk. Operands are rows of tokens, scores a matrix for each head.

  /// scores = rows of the queries times rows of the keys.
  ProductShape scores_of(const Chunk& at, const AttentionOperand& queries,
                         const AttentionOperand& keys, int64_t width) const {
    ProductShape shape{.m = at.queries,
                       .n = at.columns,
                       .k = width,
                       .transpose_b = true,
                       .lda = queries.step,
                       .ldb = keys.step,
                       .ldc = at.columns};
    shape.outer = at.batches;
    shape.inner = at.heads;
    shape.a = {queries.batch_step, queries.head_step};
    shape.b = {keys.batch_step, keys.head_step};
    shape.c = score_steps(at);
    return shape;
  }

  /// Rows of the queries = scores times rows of the keys.
  ProductShape weighted_keys(const Chunk& at, const AttentionOperand& keys,
                             const AttentionOperand& queries, int64_t width) const {
    ProductShape shape{.m = at.queries,
                       .n = width,
                       .k = at.columns,
                       .lda = at.columns,
                       .ldb = keys.step,
                       .ldc = queries.step};
    shape.outer = at.batches;
    shape.inner = at.heads;
    shape.a = score_steps(at);
    shape.b = {keys.batch_step, keys.head_step};
    shape.c = {queries.batch_step, queries.head_step};
    return shape;
  }

  /// Rows of the keys = scores, transposed, times rows of the queries.
  ProductShape weighted_queries(const Chunk& at, const AttentionOperand& queries,
                                const AttentionOperand& keys, int64_t width, bool adds) const {
    ProductShape shape{.m = at.columns,
                       .n = width,
                       .k = at.queries,
                       .transpose_a = true,
                       .lda = at.columns,
                       .ldb = queries.step,
                       .ldc = keys.step};
    shape.outer = at.batches;
    shape.inner = at.heads;
    shape.a = score_steps(at);
    shape.b = {queries.batch_step, queries.head_step};
    shape.c = {keys.batch_step, keys.head_step};
    shape.adds = adds;
    return shape;
  }

  /// The chunk's first row of an operand, `token` tokens after its head's first.
  const char* in(const Launch& launch, const AttentionOperand& operand, const Chunk& at,
                 int64_t token) const {
    return launch.in<char>(operand.index) +
           (operand.offset(at.batch, at.head) + token * operand.step) * element_;
  }
  char* out(const Launch& launch, const AttentionOperand& operand, const Chunk& at,
            int64_t token) const {
    return launch.out<char>(operand.index) +
           (operand.offset(at.batch, at.head) + token * operand.step) * element_;
  }

  /// Which rows a product has.
  enum class Lines { queries, keys };

  /// Sums of a chunk that took in what is no number, and is not seen, without it. `to` and `from`
  /// are the product's result and its right side, from the chunk's first row on.
  void leave_out_unseen(const Launch& launch, const Chunk& at, Lines lines, const void* scores,
                        char* to, const AttentionOperand& to_layout, const char* from,
                        const AttentionOperand& from_layout, int64_t width) const {
    if (!unseen_ || width == 0 || at.rows() == 0 || at.columns == 0) return;
    const int64_t own = lines == Lines::keys ? at.columns : at.queries;
    Call call(launch, *unseen_);
    call.memory(to).memory(scores).memory(from);
    call.whole(at.batches * at.heads * own).whole(width).whole(at.heads).whole(at.queries);
    call.whole(at.query).whole(at.columns).whole(lines == Lines::keys ? 1 : 0);
    for (const AttentionOperand* layout : {&to_layout, &from_layout}) {
      call.whole(layout->batch_step).whole(layout->head_step).whole(layout->step);
    }
    call.rows(at.batches * at.heads * own, width);
  }

  /// The scores, the logarithms, the mask and kParameters.
  void pass(Call& call, const Launch& launch, const Chunk& at, const void* logarithms,
            const AttentionOperand& layout) const {
    call.workspace().memory(logarithms);
    const bool has_mask = mask_.index >= 0 && shape_.keys > 0;
    if (has_mask) {
      call.memory(launch.in<char>(mask_.index) + mask_.offset(at.batch, at.head) +
                  at.query * shape_.mask_query_step * mask_.element);
    } else {
      call.workspace();
    }
    call.whole(at.rows()).whole(at.columns).whole(at.heads).whole(at.queries).whole(at.query);
    call.whole(shape_.causal ? 1 : 0).real(shape_.scale);
    call.whole(layout.batch_step).whole(layout.head_step).whole(layout.step);
    call.whole(mask_.batch_step).whole(mask_.head_step);
    call.whole(shape_.mask_query_step).whole(shape_.mask_key_step);
  }

  AttentionShape shape_;
  const AttentionMask mask_;
  const int64_t element_;
  const AttentionOperands operands_;
  const ProductsPtr products_;
  const Kernel rows_;             // What is done to the rows of the scores.
  std::optional<Kernel> unseen_;  // Where queries do not see all keys.

 private:
  KernelText text(const Signature& s, const char* body, const char* name) const {
    const char* const type = type_name(s.inputs[0].dtype);
    const char* const masked = shape_.mask == MaskKind::none ? "(x)"
                               : shape_.mask == MaskKind::boolean
                                   ? "(mask[(c) * mask_key] != 0 ? (x) : (T)-INFINITY)"
                                   : "((x) + mask[(c) * mask_key])";
    return {.name = name,
            .words = {{"T", type},
                      {"PARAMETERS", kParameters},
                      {"MASK_T", shape_.mask == MaskKind::boolean ? "u8" : type},
                      {"MASKED(x, c)", masked}},
            .functions = {kMathFunctions},
            .body = body};
  }

  static ProductShape::Steps score_steps(const Chunk& at) {
    return {at.heads * at.queries * at.columns, at.queries * at.columns};
  }

  int64_t batches_, heads_, queries_;  // So many are in a chunk.
};

class Attention final : public AttentionKernel {
 public:
  Attention(const Signature& s, const Device& device)
      : AttentionKernel(s, 0, kWeights, "attention_weights", device),
        result_(0, s.outputs[0].shape),
        logarithms_(1, s.outputs[1].shape) {
    for_each_chunk([this](const Chunk& at, bool) {
      products_bytes_ = std::max(products_bytes_, products_bytes(scores(at), result(at)));
    });
  }

  void run(const Launch& launch) const override {
    for_each_chunk([&](const Chunk& at, bool) {
      if (at.rows() == 0) return;
      products_->multiply(launch, scores(at), in(launch, operands_.query, at, at.query),
                          in(launch, operands_.key, at, 0), launch.workspace(), scores_bytes());
      Call call(launch, rows_);
      pass(call, launch, at, out(launch, logarithms_, at, at.query), logarithms_);
      call.rows(at.rows(), 8 * at.columns);
      const char* const value = in(launch, operands_.value, at, 0);
      char* const to = out(launch, result_, at, at.query);
      products_->multiply(launch, result(at), launch.workspace(), value, to, scores_bytes());
      leave_out_unseen(launch, at, Lines::queries, launch.workspace(), to, result_, value,
                       operands_.value, shape_.value_width);
    });
  }

  size_t workspace_bytes() const override { return scores_bytes() + products_bytes_; }
  const char* provider() const override { return products_->provider(); }

 private:
  ProductShape scores(const Chunk& at) const {
    return scores_of(at, operands_.query, operands_.key, shape_.width);
  }
  ProductShape result(const Chunk& at) const {
    return weighted_keys(at, operands_.value, result_, shape_.value_width);
  }

  const AttentionOperand result_, logarithms_;
  size_t products_bytes_ = 0;
};

class AttentionGrad final : public AttentionKernel {
 public:
  AttentionGrad(const Signature& s, const Device& device)
      : AttentionKernel(s, 1, kSlopes, "attention_slopes", device),
        gradients_(0, s.outputs),
        gradient_(0, s.inputs[0].shape),
        result_(operands_.count + 1, s.inputs[0].shape),
        logarithms_(operands_.count + 2, s.inputs[0].shape.without(3)) {
    for_each_chunk([this](const Chunk& at, bool is_first) {
      products_bytes_ =
          std::max(products_bytes_, products_bytes(scores(at), slopes(at), to_query(at),
                                                   to_key(at, !is_first), to_value(at, !is_first)));
    });
  }

  void run(const Launch& launch) const override {
    const size_t free = 2 * scores_bytes();
    char* const weights = launch.workspace<char>();
    char* const slopes = weights + scores_bytes();
    for_each_chunk([&](const Chunk& at, bool is_first) {
      const char* const query = in(launch, operands_.query, at, at.query);
      const char* const gradient = in(launch, gradient_, at, at.query);
      const char* const key = in(launch, operands_.key, at, 0);
      if (at.rows() > 0) {
        products_->multiply(launch, scores(at), query, key, weights, free);
        products_->multiply(launch, this->slopes(at), gradient, in(launch, operands_.value, at, 0),
                            slopes, free);
        differentiate(launch, at, slopes);
        char* const to = out(launch, gradients_.query, at, at.query);
        products_->multiply(launch, to_query(at), slopes, key, to, free);
        leave_out_unseen(launch, at, Lines::queries, slopes, to, gradients_.query, key,
                         operands_.key, shape_.width);
      }
      char* const to_value = out(launch, gradients_.value, at, 0);
      char* const to_key = out(launch, gradients_.key, at, 0);
      products_->multiply(launch, this->to_value(at, !is_first), weights, gradient, to_value, free);
      products_->multiply(launch, this->to_key(at, !is_first), slopes, query, to_key, free);
      if (!is_first) return;  // What was there before cannot be told from what was added.
      leave_out_unseen(launch, at, Lines::keys, weights, to_value, gradients_.value, gradient,
                       gradient_, shape_.value_width);
      leave_out_unseen(launch, at, Lines::keys, slopes, to_key, gradients_.key, query,
                       operands_.query, shape_.width);
    });
  }

  size_t workspace_bytes() const override { return 2 * scores_bytes() + products_bytes_; }
  const char* provider() const override { return products_->provider(); }

 private:
  void differentiate(const Launch& launch, const Chunk& at, const void* slopes) const {
    Call call(launch, rows_);
    pass(call, launch, at, in(launch, logarithms_, at, at.query), logarithms_);
    call.memory(slopes);
    // Results without elements have no address.
    const bool has_results = shape_.value_width > 0;
    call.memory(has_results ? in(launch, gradient_, at, at.query) : slopes);
    call.memory(has_results ? in(launch, result_, at, at.query) : slopes);
    call.whole(shape_.value_width).whole(result_.batch_step).whole(result_.head_step);
    call.whole(result_.step).rows(at.rows(), 8 * at.columns);
  }

  ProductShape scores(const Chunk& at) const {
    return scores_of(at, operands_.query, operands_.key, shape_.width);
  }
  ProductShape slopes(const Chunk& at) const {
    return scores_of(at, gradient_, operands_.value, shape_.value_width);
  }
  ProductShape to_query(const Chunk& at) const {
    return weighted_keys(at, operands_.key, gradients_.query, shape_.width);
  }
  ProductShape to_key(const Chunk& at, bool adds) const {
    return weighted_queries(at, operands_.query, gradients_.key, shape_.width, adds);
  }
  ProductShape to_value(const Chunk& at, bool adds) const {
    return weighted_queries(at, gradient_, gradients_.value, shape_.value_width, adds);
  }

  const AttentionOperands gradients_;
  const AttentionOperand gradient_, result_, logarithms_;
  size_t products_bytes_ = 0;
};

template <class E>
ExecutablePtr prepare(const Signature& s, const Device& device) {
  return std::make_shared<E>(s, device);
}

}  // namespace

void register_attention(op::BackendKernels& kernels) {
  const std::vector<DType> floating{DType::float32, DType::float64};
  for (const std::string name : {"attention", "self_attention"}) {
    add_kernel(kernels, name, floating, prepare<Attention>);
    add_kernel(kernels, name + "_grad", floating, prepare<AttentionGrad>);
  }
}

}  // namespace tandem::kernels::gpu
