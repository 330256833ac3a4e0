#pragma once
// One layer of a graph: its shapes, what it must keep for backward, forward and backward.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/device/ops.hpp"
#include "tutti/model/model_buffer.hpp"
#include "tutti/model/parameter.hpp"

namespace tutti {

enum class Phase { train, evaluate };

/// Adds up what the ranks know of one batch. Layers reach the other ranks through this only; `train`
/// implements it.
class StatisticsReducer {
  public:
    virtual ~StatisticsReducer() = default;
    /// values f64[K], in the device's memory: in place, the sum over all ranks, with the same bits on each.
    /// Collective: every rank calls it equally often with the same K. Blocks.
    virtual void sum(const TensorView& values) = 0;
};

/// What a layer may know of the step it is part of. Random layers address their numbers with it.
struct StepContext {
    Phase phase = Phase::train;
    std::int64_t seed = 0;
    std::int64_t epoch = 0;
    std::span<const std::int64_t> positions;  ///< of the samples of this batch, in the epoch's order
    StatisticsReducer* statistics = nullptr;  ///< null: this rank is alone
    /// Batch statistics (and the gradients through them) are those of all ranks' samples, not of this rank's.
    bool sync_batch_statistics = false;
    /// The batch is one of several whose statistics the caller adds up (Graph::batch_statistics) and has
    /// tracked once: forward leaves the running ones as they are.
    bool defers_tracking = false;
    /// Forward runs a second time for backward's sake: what is kept across steps must not change again.
    bool recomputing = false;
};

/// The tensors of one call. All begin with the batch dimension N, except parameters. In forward only inputs,
/// output, state and parameters are set.
struct LayerCall {
    std::span<const TensorView> inputs;
    TensorView output;
    TensorView state;  ///< state_bytes_per_sample()·N bytes (u8) that live from forward to backward
    std::span<const TensorView> parameters;
    /// The same as products take them: where the operations round those (Ops::product_inputs), rounded once
    /// per update.
    std::span<const TensorView> product_parameters;
    TensorView output_gradient;
    std::span<const TensorView> input_gradients;      ///< undefined where nobody needs them; overwritten
    std::span<const TensorView> parameter_gradients;  ///< overwritten
    const StepContext* step = nullptr;
    std::span<const TensorView> buffers;  ///< the layer's, in the order of its declaration
    TensorView batch_state;               ///< u8[batch_state_bytes()] that live from forward to backward
    TensorView statistics;                ///< f64[statistics_count()]
    std::size_t number = 0;               ///< of the layer in the graph; addresses random numbers
    TensorView gelu_input;                ///< in backward of a layer behind a GELU that was fused
    /// In backward: a layer that has written its parameter_gradients, but not yet its input_gradients, may
    /// call it once, and does not touch the former any more. They can be on their way to the other ranks
    /// while the latter are computed.
    const std::function<void()>* parameter_gradients_final = nullptr;

    /// The parameters, for what is added to values of this type: rounded, where product_parameters are that.
    std::span<const TensorView> parameters_like(const TensorView& value) const {
        return product_parameters.front().dtype == value.dtype ? product_parameters : parameters;
    }
    void announce_parameter_gradients() const {
        if (parameter_gradients_final) (*parameter_gradients_final)();
    }
};

/// A layer knows its input shapes (one sample, without N) from its construction. Not thread-safe. The graph
/// guarantees N ≥ 1, except to layers with batch statistics in training, whose collectives every rank must
/// join.
class Layer {
  public:
    explicit Layer(Shape output_shape) : output_shape_(output_shape) {}
    virtual ~Layer() = default;
    Layer(const Layer&) = delete;
    Layer& operator=(const Layer&) = delete;

    /// "conv2d", "relu", …
    virtual std::string kind() const = 0;
    /// One sample's output.
    const Shape& output_shape() const { return output_shape_; }
    const std::vector<ParameterSpec>& parameters() const { return parameters_; }
    const std::vector<BufferSpec>& buffers() const { return buffers_; }

    /// What backward reads: these are kept until then, other activations' memory is used again.
    virtual bool backward_reads_input() const { return false; }
    virtual bool backward_reads_output() const { return false; }
    /// True when the output may take the memory of the first input, if nobody else reads that input any more.
    virtual bool works_in_place() const { return false; }
    /// True when the output is the first input's memory under another shape: nothing is computed.
    virtual bool is_view() const { return false; }
    /// True when the first input and its gradient may be of another type than the output and its gradient,
    /// where the operations have several (Ops::activations).
    virtual bool converts() const { return false; }
    /// True when the layer uses operations that take the type of Ops::images() for its inputs and their
    /// gradients; for its output and that one's. Asked when all fusing is done.
    virtual bool reads_images() const { return is_view(); }
    virtual bool writes_images() const { return reads_images(); }
    /// Asked before the memory is planned, on backends that fuse (Ops::fuses_relu): a ReLU that directly
    /// follows is the only reader of the output. True when the layer applies it from now on: forward gives
    /// max(output, 0), and backward gets the gradient of that.
    virtual bool fuse_relu_behind(Ops&) { return false; }
    /// The same with a ReLU before: forward takes max(input, 0), backward gives the gradient of the input.
    virtual bool fuse_relu_before() { return false; }
    /// Asked on backends that add in the layer's pass (Ops::fuses_residual): a sum with another
    /// value, which comes before this layer, is the only reader of the output. True when the layer takes that
    /// value as its second input from now on and adds it.
    virtual bool fuse_sum_behind() { return false; }
    /// GELU: its form; null: another layer.
    virtual const GeluForm* gelu_form() const { return nullptr; }
    /// Asked before the memory is planned, on backends that fuse it (Ops::fuses_gelu): a GELU that directly
    /// follows is the only reader of the output, and its only reader is a layer that takes fuse_gelu_before.
    /// True when the layer applies it from now on, keeps in `state`, in the output's type, what was before
    /// it, and gets that value's gradient as output_gradient.
    virtual bool fuse_gelu_behind(GeluForm) { return false; }
    /// The same with a GELU before: the input is its output, and gelu_input what came before it, whose
    /// gradient backward gives in place of the input's.
    virtual bool fuse_gelu_before(GeluForm) { return false; }
    /// Asked before the memory is planned (Ops::fuses_gelu_behind): a GELU that directly follows is the only
    /// reader of the output. True when the layer has all of it from now on: forward gives GELU's output and
    /// keeps in `state`, in the output's type, what was before it; backward gets the gradient of GELU's
    /// output.
    virtual bool fuse_all_of_gelu_behind(GeluForm) { return false; }
    /// Max pooling: its shape, with the ReLU that it applies; null: another layer.
    virtual const Pool2dShape* max_pooling() const { return nullptr; }
    /// Asked before the memory is planned: max pooling is the only reader of the output. `input_gradient`:
    /// whether anybody needs that of the layer's input. True when the layer does it from now on: its output,
    /// and so its gradient, are the pooling's.
    virtual bool fuse_pooling_behind(const Pool2dShape&, Ops&, bool /*input_gradient*/) { return false; }
    /// Asked before the memory is planned: another reader of the first input, a value of `type`, has written
    /// its gradient when backward runs. True when backward adds to it from now on, in place of overwriting
    /// it.
    virtual bool fuse_gradient_sum(Ops&, DType /*type*/) { return false; }
    /// True when the gradient of this input is the output's, as it is: backward leaves it alone where it is
    /// in that one's memory.
    virtual bool passes_gradient_on(std::size_t /*input*/) const { return false; }
    /// True when backward may leave something else in output_gradient, which then must be nobody else's.
    virtual bool overwrites_output_gradient() const { return false; }
    /// Asked when all fusing is done, before the memory is planned: what is kept for backward may depend on
    /// the device and on the output's type.
    virtual void choose_what_is_kept(const Ops&, DType /*output*/) {}
    /// True when forward may be called for some samples after others: it computes each alone, at no great
    /// cost per call.
    virtual bool treats_samples_apart() const { return false; }
    virtual std::int64_t state_bytes_per_sample() const { return 0; }
    virtual std::int64_t batch_state_bytes() const { return 0; }
    /// Batch statistics: in training, forward writes this many doubles, sums over the rows of the batch. With
    /// sync_batch_statistics they are already those of all ranks, otherwise the graph adds them over the
    /// ranks, all layers' in one collective; then running statistics follow them as `tracking`, which gets
    /// statistics and buffers, says.
    virtual std::int64_t statistics_count() const { return 0; }
    virtual BatchNormTracking tracking(const LayerCall&) const { return {}; }
    /// Asked before a graph is made of it, of a layer whose parameters are all frozen. True when it keeps its
    /// running statistics from now on and normalises by them in training, too: it has no batch statistics
    /// then.
    virtual bool freeze_statistics() { return false; }
    /// Multiplications and additions of one sample's forward in training, for reports. Comparisons and
    /// functions of one element (ReLU, GELU, softmax, dropout, drop path) count nothing.
    virtual double forward_flops() const { return 0; }
    /// Likewise of one sample's backward, with or without the gradient of the input. As it is for products:
    /// each gradient, of the input and of the parameters, costs what forward costs.
    virtual double backward_flops(bool input_gradient) const {
        return forward_flops() * ((input_gradient ? 1 : 0) + (parameters_.empty() ? 0 : 1));
    }

    /// Creates the planned operators. Called once, before the first forward.
    virtual void prepare(Ops& ops) { ops_ = &ops; }
    virtual void forward(const LayerCall& call) = 0;
    virtual void backward(const LayerCall& call) = 0;

  protected:
    void set_output_shape(const Shape& shape) { output_shape_ = shape; }
    void add_parameter(ParameterSpec spec) { parameters_.push_back(std::move(spec)); }
    void add_buffer(BufferSpec spec) { buffers_.push_back(std::move(spec)); }
    Ops& ops() const { return *ops_; }

  private:
    Shape output_shape_;
    std::vector<ParameterSpec> parameters_;
    std::vector<BufferSpec> buffers_;
    Ops* ops_ = nullptr;
};

}  // namespace tutti
