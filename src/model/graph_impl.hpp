#pragma once
// What a Graph holds; shared by the files that implement it.

#include "activation_plan.hpp"
#include "tutti/model/graph.hpp"

namespace tutti {

struct Graph::Impl {
    // The views of one layer's calls; their first dimension follows the batch.
    struct Calls {
        std::vector<TensorView> inputs, input_gradients, parameters, parameter_gradients;
        std::vector<TensorView> product_parameters;
        std::vector<TensorView> scratch;  // per input; undefined when the gradient is written directly
        std::vector<bool> first;          // per input: this node is the first to write that gradient
        TensorView output, state, output_gradient;
        TensorView gelu_input;  // see LayerCall
        /// Per parameter of the layer: its place in Impl::parameters, or `frozen`.
        static constexpr std::size_t frozen = static_cast<std::size_t>(-1);
        std::vector<std::size_t> parameter_places;
        // Where forward reads and writes; the views above are what is computed again and backward's.
        std::vector<TensorView> first_inputs;
        TensorView first_output, first_state;
        std::size_t again_from = 0;  // before backward of this node: run forward again from there to here
        std::vector<std::size_t> parameter_numbers;  // those that are trained, by their places
        std::vector<TensorView> buffers;
        TensorView batch_state, statistics;
    };

    Impl(GraphSpec given, Device& on, Arithmetic arithmetic, std::int64_t largest_batch, bool recompute,
         int equal_shards)
        : spec(std::move(given)),
          device(&on),
          ops(&on.ops(arithmetic)),
          compute(arithmetic.compute),
          max_batch(largest_batch),
          recomputes(recompute),
          shards(equal_shards) {}

    /// All that makes a graph. first: whose parameters and buffers it takes, or null.
    void lay_out(const std::function<Buffer(std::size_t)>& give_gradient_memory, const Impl* first);
    void redirect_gradients(const TensorView& arena);
    void allocate_parameters(const std::function<Buffer(std::size_t)>& give_gradient_memory);
    void lay_out_parameters();
    void allocate_discarded_gradients();
    void lay_out_buffers(const Impl* first);
    void lay_out_activations(const std::vector<DType>& types, bool recompute);  // and finds the runs
    /// The largest batch of a node's value; undefined without an offset.
    TensorView activation(std::size_t offset, std::size_t node, DType type) const;
    void view_activations(std::size_t node, const ActivationPlan& plan, const std::vector<DType>& types,
                          const std::vector<std::size_t>& last_consumer);
    void view_parameters();
    void round_for_products(std::int64_t count) const;
    /// parameters_final: see LayerCall.
    void backward_layer(std::size_t node, std::int64_t n, const StepContext& step,
                        const std::function<void()>& parameters_final);
    /// The layer's call in the first forward, on the whole batch.
    LayerCall forward_call(std::size_t node, const StepContext& step) const;
    void forward_layer(std::size_t node, const StepContext& step);
    void forward_run(const SampleRun& run, std::int64_t n, const StepContext& step);
    void forward_again(std::size_t from, std::size_t to, const StepContext& step);
    void set_batch(std::int64_t n);
    bool takes_part(std::size_t node, std::int64_t n, const StepContext& step) const;
    void add_statistics_of_ranks(const StepContext& step);
    void track_statistics(const StepContext& step);
    void set_values(const TensorView& buffer, const std::vector<double>& values);
    void set_buffers_to_initial_values();
    void set_parameter(const TensorView& arena, const Parameter& parameter, const NamedTensor& tensor);
    TensorView parameter_view(const TensorView& arena, const Parameter& parameter) const;
    void use_parameters_of(const Calls& call) const;
    void use_all_parameters() const {
        if (before_use) before_use(0, parameters.size());
    }

    GraphSpec spec;
    Device* device;
    Ops* ops;
    DType compute;
    std::int64_t max_batch;
    bool recomputes = false;
    int shards = 1;  // see Graph's constructor
    std::int64_t batch = -1;
    GraphObserver* observer = nullptr;
    std::function<void()> progress;
    Graph::BeforeUse before_use;

    std::vector<Parameter> parameters;  // arena order
    std::vector<Parameter> frozen;      // behind the arena
    std::int64_t arena_count = 0;       // elements, gaps included
    std::int64_t all_count = 0;         // with the frozen ones
    Buffer parameter_memory, gradient_memory, activation_memory;
    TensorView gradients;     // where backward writes them
    Buffer discarded_memory;  // the gradients of frozen parameters in layers that have backward
    Buffer rounded_memory;    // the parameters for products; empty where these take them as they are
    Buffer buffer_memory, statistics_memory;
    std::int64_t statistics_count = 0;       // doubles, of all layers
    std::vector<Calls> calls;                // by node; [0] is the input
    std::vector<BatchNormTracking> tracked;  // of one call, kept for its memory
    std::vector<SampleRun> runs;             // ascending; none with recomputation
};

}  // namespace tutti
