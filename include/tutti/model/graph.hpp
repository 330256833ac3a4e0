#pragma once
// A static graph of layers with planned memory.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/base/named_tensor.hpp"
#include "tutti/device/device.hpp"
#include "tutti/model/graph_observer.hpp"
#include "tutti/model/layer.hpp"

namespace tutti {

/// Names a value (the output of a layer, or the graph's input) while a model is put together.
using NodeId = std::size_t;

/// A model before it has memory: layers in the order of their execution. Made by the zoo or from YAML.
class GraphSpec {
  public:
    /// input: one sample's shape, {H, W, C} or {F}. Between layers there are tokens, too: {T, C}.
    explicit GraphSpec(const Shape& input);

    NodeId input() const { return 0; }
    const Shape& shape(NodeId node) const { return nodes_.at(node).shape; }
    /// Appends a layer. `name` prefixes its parameters ("conv1" -> "conv1.weight"); without a name they keep
    /// their own ("cls_token"). The last one added is the output.
    NodeId add(const std::string& name, std::unique_ptr<Layer> layer, std::vector<NodeId> inputs);
    /// Graph::value can then be asked for this value between forward and backward.
    void keep(NodeId node) { nodes_.at(node).kept = true; }

    struct Node {
        std::string name;
        std::unique_ptr<Layer> layer;  ///< null for the input
        std::vector<NodeId> inputs;
        Shape shape;
        bool kept = false;           ///< its memory is used again only after the loss
        bool adds_gradient = false;  ///< the layer has taken fuse_gradient_sum
        std::vector<bool> frozen;    ///< by parameter of the layer: it keeps its values; empty: none does
        bool is_frozen(std::size_t parameter) const { return !frozen.empty() && frozen[parameter]; }
        /// Whether the layer has a parameter that is trained.
        bool is_trained() const;
    };
    /// The name of a parameter in the whole model.
    static std::string full_name(const Node& node, const ParameterSpec& parameter) {
        return node.name.empty() ? parameter.name : node.name + "." + parameter.name;
    }
    std::vector<Node>& nodes() { return nodes_; }
    const std::vector<Node>& nodes() const { return nodes_; }

  private:
    std::vector<Node> nodes_;
};

/// Bytes of each arena of a graph.
struct GraphMemory {
    std::size_t parameters = 0, gradients = 0, activations = 0, input = 0, buffers = 0;
    std::size_t rounded = 0;     ///< the copy of the parameters that products read
    std::size_t statistics = 0;  ///< sums of the last batch; no arena
    std::size_t discarded = 0;   ///< gradients of frozen parameters that a layer computes with others
};

/// A graph with its arenas: parameters, gradients, activations (offsets by liveness, for the largest batch).
/// The device must outlive it. One thread; nothing is allocated in forward and backward.
///
/// Arena order: the parameters lie in the order in which backward finishes them (the reverse of
/// registration), so that any run of neighbours is one contiguous slice, a bucket. Each begins at a multiple
/// of 64 bytes; gaps are zero. Frozen parameters lie behind the arena, in the same memory, and have no
/// gradients: who trains, sums and updates sees the others alone. Layers in front of the first trained one
/// have no backward, and nothing is kept for it.
class Graph {
  public:
    /// recompute: only some values live from forward to backward; the others are computed again, with the
    /// same bits, before they are needed. shards: each parameter, and the arenas' end, lies at a multiple of
    /// 64 · shards bytes, so that what is between any two can be cut into that many equal, aligned blocks.
    /// gradient_memory gives the bytes of the gradient arena, contents arbitrary, or an empty Buffer: then,
    /// and without it, the memory is the device's. It is called before anything else is allocated.
    Graph(GraphSpec spec, Device& device, Arithmetic arithmetic, std::int64_t max_batch,
          bool recompute = false, int shards = 1,
          const std::function<Buffer(std::size_t)>& gradient_memory = {});
    /// The same model once more, for a thread of its own: with `first`'s parameters, their rounded copy and
    /// its buffers, which must be left alone while this graph runs, and with its own activations and batch
    /// statistics. It has no gradients: backward needs redirect_gradients() before (asserted), and
    /// gradient_arena() must not be asked for. It must not track statistics, initialize or load. Everything
    /// else is as in `first`, which must outlive it.
    Graph(GraphSpec spec, Device& device, Arithmetic arithmetic, const Graph& first);
    ~Graph();
    Graph(Graph&& other) noexcept;

    /// The type of the parameters, their gradients, and the output and its gradient. Where the operations
    /// keep activations in another one (Ops::activations), input() and value() may be of that.
    DType compute() const;
    std::int64_t max_batch() const;
    const Shape& output_shape() const;
    GraphMemory memory() const;

    /// In arena order, without the frozen ones.
    const std::vector<Parameter>& parameters() const;
    /// Those that keep their values: offsets are behind the arena's end, into all_parameters().
    const std::vector<Parameter>& frozen_parameters() const;
    /// Number of layers, and for reports: name, kind, output shape, FLOPs of one sample
    /// (Layer::forward_flops) of layer i. Gradients of the model's input, and of what follows from it
    /// without parameters that are trained, are not computed, and so not counted; what recompute does a
    /// second time is not, either.
    struct LayerReport {
        std::string name, kind;
        Shape output;
        std::int64_t parameters, frozen;  ///< of the former, those that are not trained
        double forward_flops, backward_flops;
        std::int64_t trained() const { return parameters - frozen; }
    };
    std::vector<LayerReport> report() const;

    /// The arena and the frozen parameters behind it, 1-D, including the gaps: what another rank or a file
    /// must know to compute the same.
    TensorView all_parameters() const;
    /// The whole arenas, 1-D, including the gaps.
    TensorView parameter_arena() const;
    TensorView gradient_arena() const;
    /// To be called after parameters were written through a view of their arena (by an optimizer, a
    /// broadcast, an exchange), before the next forward: where products take rounded inputs
    /// (Ops::product_inputs), their copy of the parameters is rounded anew, in one pass of the device; else
    /// nothing is done.
    void parameters_changed() const;
    /// The same after all_parameters() was written.
    void all_parameters_changed() const;
    /// The buffers of all layers (running statistics), u8[bytes]: to send them to other ranks.
    TensorView buffer_arena() const;

    /// Where the caller writes the batch before forward: [n, input…], n ≤ max_batch.
    TensorView input(std::int64_t n) const;

    /// Runs all layers on the batch in input(n); returns the output [n, …], valid until backward or the next
    /// forward. In training the running statistics follow the batch; with step.statistics set, forward (and
    /// with sync_batch_statistics backward) is then collective in a graph with batch statistics, also for n =
    /// 0.
    TensorView forward(std::int64_t n, const StepContext& step);

    /// The sums of the last training batch from which the running statistics follow, f64[K] of all layers
    /// (K = 0 without batch statistics), until the next forward. Sums over several batches are sums of these.
    TensorView batch_statistics() const;
    /// After forwards with step.defers_tracking: the running statistics follow what batch_statistics() holds.
    void track_statistics(const StepContext& step);

    /// A value that the GraphSpec keeps, [n, …], as the last forward(n) left it; valid until backward or the
    /// next forward.
    TensorView value(NodeId node, std::int64_t n) const;

    /// Called in backward when the gradient of parameters()[i] is final; the order is that of the arena.
    using GradientReady = std::function<void(std::size_t parameter)>;
    /// After forward(n, train): the caller has written output_gradient(n). Overwrites all gradients. n = 0
    /// zeroes and announces all.
    void backward(std::int64_t n, const StepContext& step, const GradientReady& ready);
    TensorView output_gradient(std::int64_t n) const;
    /// From now on backward writes the gradients there: laid out as gradient_arena(), the gaps are left as
    /// they are. The memory must outlive its use.
    void redirect_gradients(const TensorView& arena);

    /// Told from now on when layers run, in forward and backward; null: nobody. It must outlive its use.
    void observe(GraphObserver* observer);
    /// Called in backward after each layer, for transfers that need the processor to go on; empty: nothing is
    /// called. It must not touch the graph.
    void set_progress(std::function<void()> progress);

    /// Where parameters are still to be updated when forward begins: called before the parameters [first,
    /// last) (arena order) are used, and before backward overwrites gradients. In training before each layer
    /// that runs, with its own (none: first == last); with all before an evaluation's forward, before
    /// backward, and before they are saved or replaced. Views of arenas are handed out without it. Empty:
    /// nothing is called.
    using BeforeUse = std::function<void(std::size_t first, std::size_t last)>;
    void set_before_use(BeforeUse before_use);

    /// Buffers get their initial values, parameters default values from Philox at (seed, number of the
    /// parameter), in the file's element order, so independent of the layout.
    void initialize(std::int64_t seed);

    /// All parameters, frozen or not, and buffers under PyTorch's names, shapes and element order, as in
    /// state_dict(): layer by layer, its parameters before its buffers.
    std::vector<NamedTensor> save() const;
    /// Sets all parameters and buffers, frozen ones, too. Floating types are converted. Throws DataError that
    /// lists what is missing, what is too much and what has another shape; nothing is changed then. `source`
    /// names the file. Buffers that may be absent get their initial value.
    void load(std::span<const NamedTensor> tensors, const std::string& source);

    /// Host copies between any arena-shaped device memory (optimizer state) and file order; of parameters().
    std::vector<NamedTensor> save_arena(const TensorView& arena, const std::string& prefix) const;
    void load_arena(const TensorView& arena, std::span<const NamedTensor> tensors, const std::string& prefix,
                    const std::string& source);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
