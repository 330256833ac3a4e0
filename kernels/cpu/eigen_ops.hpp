#pragma once
// The ops contract in plain C++ and Eigen, for T = float and double. In double it is the reference that
// everything else is tested against; in float it carries what oneDNN does not.

#include <memory>

#include "host_memory.hpp"
#include "pixel_table.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// Each operator's file defines and instantiates its members. Uses as many OpenMP threads as the process has
/// set.
template <class T>
class EigenOps : public Ops {
  public:
    DType compute() const override { return dtype_of<T>; }
    bool fuses_relu() const override { return true; }
    std::size_t cache_bytes() const override;

    std::unique_ptr<LinearOp> linear(const LinearShape& shape) override;
    std::unique_ptr<Conv2dOp> conv2d(const Conv2dShape& shape) override;
    std::unique_ptr<PooledConv2dOp> pooled_conv2d(const Conv2dShape& shape, const Pool2dShape& pool,
                                                  bool input_gradient) override;
    std::unique_ptr<ConvTranspose2dOp> conv_transpose2d(const ConvTranspose2dShape& shape) override;
    std::unique_ptr<BatchNormOp> batch_norm(const BatchNormShape& shape) override;
    void track_batch_norms(std::span<const BatchNormTracking> layers) override;
    std::unique_ptr<AveragePool2dOp> average_pool2d(const AveragePool2dShape& shape) override;

    void relu_forward(const TensorView& x, const TensorView& y) override;
    void relu_backward(const TensorView& y, const TensorView& dy, const TensorView& dx) override;

    void max_pool2d_forward(const Pool2dShape& shape, const TensorView& x, const TensorView& y,
                            const TensorView& winner) override;
    void max_pool2d_backward(const Pool2dShape& shape, const TensorView& dy, const TensorView& winner,
                             const TensorView& dx) override;

    void dropout_forward(const DropoutAddress& address, double probability, const TensorView& x,
                         const TensorView& y, const TensorView& keep) override;
    void dropout_backward(double probability, const TensorView& dy, const TensorView& keep,
                          const TensorView& dx) override;

    void softmax_cross_entropy_forward(const TensorView& logits, const TensorView& labels,
                                       const TensorView& probabilities, const TensorView& sums,
                                       const CrossEntropyTarget& target) override;
    void softmax_cross_entropy_backward(const TensorView& probabilities, const TensorView& labels,
                                        double scale, const TensorView& dlogits,
                                        const CrossEntropyTarget& target) override;

    void regression_loss_forward(const TensorView& outputs, const TensorView& targets, RegressionLoss kind,
                                 const TensorView& differences, const TensorView& sums) override;
    void regression_loss_backward(const TensorView& differences, RegressionLoss kind, double scale,
                                  const TensorView& doutputs) override;

    void location_loss_forward(const TensorView& outputs, const TensorView& wanted, const LocationLoss& loss,
                               const TensorView& differences, const TensorView& sums) override;
    void location_loss_backward(const TensorView& differences, const LocationLoss& loss, double scale,
                                const TensorView& doutputs) override;

    void layer_norm_forward(const TensorView& x, const TensorView& gamma, const TensorView& beta, double eps,
                            const TensorView& y, const TensorView& statistics) override;
    void layer_norm_backward(const TensorView& x, const TensorView& gamma, const TensorView& statistics,
                             const TensorView& dy, const TensorView& dx, const TensorView& dgamma,
                             const TensorView& dbeta, const TensorView& addend = {}) override;

    void gelu_forward(GeluForm form, const TensorView& x, const TensorView& y) override;
    void gelu_backward(GeluForm form, const TensorView& x, const TensorView& dy,
                       const TensorView& dx) override;

    void attention_forward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                           const TensorView& statistics, const TensorView& mask = {}) override;
    void attention_backward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                            const TensorView& statistics, const TensorView& dout, const TensorView& dqkv,
                            const TensorView& mask = {}) override;

    void scale_samples(const TensorView& x, std::span<const double> factors, const TensorView& y) override;

    void embed_tokens_forward(const TensorView& x, const TensorView& class_token, const TensorView& positions,
                              const TensorView& y) override;
    void embed_tokens_backward(const TensorView& dy, const TensorView& dx, const TensorView& dclass_token,
                               const TensorView& dpositions) override;

    void extract_patches(const PatchShape& shape, const TensorView& x, const TensorView& tokens) override;
    void join_patches(const PatchShape& shape, const TensorView& tokens, const TensorView& x) override;
    void pool_tokens_forward(TokenPooling pooling, const TensorView& x, const TensorView& y) override;
    void pool_tokens_backward(TokenPooling pooling, const TensorView& dy, const TensorView& dx) override;

    void mask_tokens(const DropoutAddress& address, const TubeMask& mask, const TensorView& order) override;
    void running_cells(const DropoutAddress& address, const TubeMask& mask, const RunningCells& cells,
                       const TensorView& order, const TensorView& decoded) override;
    void take_tokens(const TensorView& x, const TensorView& order, const TensorView& y) override;
    void fill_tokens_forward(const TensorView& x, const TensorView& mask_token, const TensorView& positions,
                             const TensorView& order, const TensorView& y) override;
    void fill_tokens_backward(const TensorView& dy, const TensorView& dx, const TensorView& dmask_token,
                              std::int64_t visible) override;
    void last_tokens_forward(const TensorView& x, const TensorView& y) override;
    void last_tokens_backward(const TensorView& dy, const TensorView& dx) override;
    void patch_differences(const TensorView& prediction, const TensorView& patches, const TensorView& order,
                           const TensorView& epsilon, const TensorView& differences) override;

    void copy_columns(const TensorView& x, const ColumnRange& columns, const TensorView& y) override;
    void segment_loss_forward(const TensorView& outputs, const TensorView& wanted, const SegmentLoss& loss,
                              const TensorView& gradients, const TensorView& sums) override;
    void segment_loss_backward(const TensorView& gradients, double scale,
                               const TensorView& doutputs) override;

    void normalize(const TensorView& x, std::span<const float> mean, std::span<const float> std,
                   const TensorView& y) override;

    void fill(const TensorView& x, double value) override;
    void copy(const TensorView& x, const TensorView& y) override;
    void sum(const TensorView& a, const TensorView& b, const TensorView& y) override;
    void sum_relu(const TensorView& a, const TensorView& b, const TensorView& y) override;
    void sum_relu_backward(const TensorView& y, const TensorView& dy, const TensorView& da,
                           const TensorView& db) override;
    void add(const TensorView& x, const TensorView& y) override;

    void sgd(const SgdStep& step, const TensorView& gradient, const TensorView& parameter,
             const TensorView& momentum_buffer) override;
    void adam(const AdamStep& step, const TensorView& gradient, const TensorView& parameter,
              const TensorView& first_moment, const TensorView& second_moment) override;
    void adadelta(const AdadeltaStep& step, const TensorView& gradient, const TensorView& parameter,
                  const TensorView& square_average, const TensorView& delta_average) override;
    void lamb_direction(const LambStep& step, const TensorView& gradient, const TensorView& parameter,
                        const TensorView& first_moment, const TensorView& second_moment,
                        const TensorView& update) override;
    void lamb_apply(double lr, const TensorView& squares, const TensorView& update,
                    const TensorView& parameter) override;

    void sum_of_squares(const TensorView& x, const TensorView& sum) override;
    void scale(double factor, const TensorView& x) override;
    void lerp(double weight, const TensorView& x, const TensorView& y) override;
    void swap(const TensorView& x, const TensorView& y) override;

    void rank_labels(const TensorView& logits, const TensorView& labels, const TensorView& predicted,
                     const TensorView& place) override;

  protected:
    const std::shared_ptr<Workspace>& workspace() const { return workspace_; }

  private:
    // Shared, because operators may outlive the Ops that made them.
    std::shared_ptr<Workspace> workspace_ = std::make_shared<Workspace>();
    std::shared_ptr<Workspace> sums_ = std::make_shared<Workspace>();  // what convolutions leave for pooling
    PixelTable<T> pixels_;
};

template <class T>
std::unique_ptr<LinearOp> make_eigen_linear(const LinearShape& shape);
template <class T>
std::unique_ptr<Conv2dOp> make_eigen_conv2d(const Conv2dShape& shape, std::shared_ptr<Workspace> workspace);
/// As Ops::max_pool2d_forward.
template <class T>
void max_pool2d(const Pool2dShape& shape, const TensorView& x, const TensorView& y, const TensorView& winner);
/// Null where it does not pay: see winner_conv2d.cpp. `make_convolution` makes the convolution's op, whose
/// output is in `sums` during forward; it may use `workspace`.
std::unique_ptr<PooledConv2dOp> make_winner_conv2d(
    const Conv2dShape& shape, const Pool2dShape& pool, std::shared_ptr<Workspace> workspace,
    std::shared_ptr<Workspace> sums, const std::function<std::unique_ptr<Conv2dOp>()>& make_convolution);
/// Without a gradient of x. Null where it does not pay: see pooled_conv2d.cpp.
std::unique_ptr<PooledConv2dOp> make_pooled_conv2d(const Conv2dShape& shape, const Pool2dShape& pool,
                                                   std::shared_ptr<Workspace> workspace);
template <class T>
std::unique_ptr<BatchNormOp> make_batch_norm(const BatchNormShape& shape,
                                             std::shared_ptr<Workspace> workspace);
template <class T>
void track_batch_norm(const BatchNormTracking& layer);
template <class T>
std::unique_ptr<AveragePool2dOp> make_average_pool2d(const AveragePool2dShape& shape);
/// `convolution` computes in the other direction: see convolution_of.
template <class T>
std::unique_ptr<ConvTranspose2dOp> make_conv_transpose2d(const ConvTranspose2dShape& shape,
                                                         std::unique_ptr<Conv2dOp> convolution);

/// out[columns] = Σ over rows of matrix[rows, columns], row after row.
template <class T>
void sum_rows(const T* matrix, std::int64_t rows, std::int64_t columns, T* out);
/// Adds row[columns] to every row of matrix[rows, columns].
template <class T>
void add_to_rows(const T* row, T* matrix, std::int64_t rows, std::int64_t columns);

}  // namespace tutti
