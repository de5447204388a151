// CUDA GPUs behind the interface of device.hpp. Host code: kernels are made where they are used.

#include <cuda_runtime.h>
#include <fmt/format.h>

#include "lightmill/base/error.hpp"
#include "lightmill/cuda/device.hpp"

namespace lightmill::cuda {
namespace {

void check(cudaError_t result, const char* call) {
    if (result == cudaSuccess) return;
    (void)cudaGetLastError();  // an error that does not stick is not met again
    throw DeviceError(call, static_cast<int>(result), cudaGetErrorString(result),
                      result == cudaErrorMemoryAllocation);
}

class Stream {
  public:
    Stream() { check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreate"); }
    Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Stream& operator=(Stream&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Stream() {
        if (handle_ != nullptr) (void)cudaStreamDestroy(handle_);
    }
    [[nodiscard]] cudaStream_t get() const noexcept { return handle_; }

  private:
    cudaStream_t handle_ = nullptr;
};

class Event {
  public:
    Event() { check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "cudaEventCreate"); }
    Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Event& operator=(Event&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Event() {
        if (handle_ != nullptr) (void)cudaEventDestroy(handle_);
    }
    [[nodiscard]] cudaEvent_t get() const noexcept { return handle_; }

  private:
    cudaEvent_t handle_ = nullptr;
};

class ExecutableGraph {
  public:
    explicit ExecutableGraph(cudaGraph_t graph) {
        const auto result = cudaGraphInstantiate(&handle_, graph, 0);
        (void)cudaGraphDestroy(graph);
        check(result, "cudaGraphInstantiate");
    }
    ExecutableGraph(ExecutableGraph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    ExecutableGraph& operator=(ExecutableGraph&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~ExecutableGraph() {
        if (handle_ != nullptr) (void)cudaGraphExecDestroy(handle_);
    }
    [[nodiscard]] cudaGraphExec_t get() const noexcept { return handle_; }

  private:
    cudaGraphExec_t handle_ = nullptr;
};

class Gpu final : public Device {
  public:
    explicit Gpu(const DeviceInfo& info) : info_(info) { use(); }
    ~Gpu() override {
        // Nothing may still run that uses what is about to be freed.
        if (cudaSetDevice(info_.index) == cudaSuccess) {
            for (const auto& stream : streams_) (void)cudaStreamSynchronize(stream.get());
        }
    }

    std::string name() const override { return info_.name; }

    void* allocate(std::size_t bytes) override {
        use();
        void* memory = nullptr;
        check(cudaMalloc(&memory, bytes), "cudaMalloc");
        return memory;
    }
    void free(void* memory) noexcept override { (void)cudaFree(memory); }
    void* allocate_pinned(std::size_t bytes) override {
        use();
        void* memory = nullptr;
        check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc");
        return memory;
    }
    void free_pinned(void* memory) noexcept override { (void)cudaFreeHost(memory); }
    void pin(const void* memory, std::size_t bytes) override {
        use();
        auto* writable = const_cast<void*>(memory);
        auto result = cudaHostRegister(writable, bytes, cudaHostRegisterPortable);
        if (result == cudaErrorInvalidValue || result == cudaErrorNotSupported) {
            // Pages that may be read only, such as a file's, need saying so, where the device can do it.
            (void)cudaGetLastError();
            result = cudaHostRegister(writable, bytes, cudaHostRegisterPortable | cudaHostRegisterReadOnly);
        }
        check(result, "cudaHostRegister");
    }
    void unpin(const void* memory) noexcept override { (void)cudaHostUnregister(const_cast<void*>(memory)); }
    bool pinned(const void* memory) const noexcept override {
        cudaPointerAttributes attributes{};
        if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
            (void)cudaGetLastError();
            return false;
        }
        return attributes.type == cudaMemoryTypeHost;
    }

    Queue make_queue() override {
        use();
        streams_.emplace_back();
        return {static_cast<int>(streams_.size()) - 1};
    }
    Mark make_mark() override {
        use();
        events_.emplace_back();
        return {events_.back().get()};
    }
    void record(Queue queue, Mark mark) override {
        use();
        check(cudaEventRecord(event(mark), stream(queue)), "cudaEventRecord");
    }
    void wait(Queue queue, Mark mark) override {
        use();
        check(cudaStreamWaitEvent(stream(queue), event(mark), 0), "cudaStreamWaitEvent");
    }
    bool done(Mark mark) override {
        const auto result = cudaEventQuery(event(mark));
        if (result == cudaErrorNotReady) return false;
        check(result, "cudaEventQuery");
        return true;
    }
    void synchronize(Mark mark) override { check(cudaEventSynchronize(event(mark)), "cudaEventSynchronize"); }

    void copy_in(Queue queue, void* device, const void* host, std::size_t bytes) override {
        copy_any(queue, device, host, bytes, cudaMemcpyHostToDevice);
    }
    void copy_in_pieces(Queue queue, void* device, const void* host, std::size_t bytes, std::size_t host_step,
                        std::size_t count) override {
        if (count == 0 || bytes == 0) return;
        use();
        check(cudaMemcpy2DAsync(device, bytes, host, host_step, bytes, count, cudaMemcpyHostToDevice,
                                stream(queue)),
              "cudaMemcpy2DAsync");
    }
    void copy_out(Queue queue, void* host, const void* device, std::size_t bytes) override {
        copy_any(queue, host, device, bytes, cudaMemcpyDeviceToHost);
    }
    void copy(Queue queue, void* to, const void* from, std::size_t bytes) override {
        copy_any(queue, to, from, bytes, cudaMemcpyDefault);
    }
    void zero(Queue queue, void* device, std::size_t bytes) override {
        use();
        check(cudaMemsetAsync(device, 0, bytes, stream(queue)), "cudaMemsetAsync");
    }

    void begin_capture(Queue queue) override {
        use();
        check(cudaStreamBeginCapture(stream(queue), cudaStreamCaptureModeThreadLocal),
              "cudaStreamBeginCapture");
    }
    Graph end_capture(Queue queue) override {
        use();
        cudaGraph_t graph = nullptr;
        check(cudaStreamEndCapture(stream(queue), &graph), "cudaStreamEndCapture");
        graphs_.emplace_back(graph);
        return {static_cast<int>(graphs_.size()) - 1};
    }
    void replay(Queue queue, Graph graph) override {
        use();
        check(cudaGraphLaunch(graphs_[static_cast<std::size_t>(graph.index)].get(), stream(queue)),
              "cudaGraphLaunch");
    }

  protected:
    void launch_erased(Queue queue, const ErasedKernel& kernel, const Shape& shape, const void* parameters,
                       std::size_t) override {
        use();
        void* arguments[] = {const_cast<void*>(parameters)};
        cudaLaunchAttribute attributes[2] = {};
        unsigned count = 0;
        if (shape.early && info_.major >= 9) {
            attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
            attributes[count++].val.programmaticStreamSerializationAllowed = 1;
        }
        if (shape.cooperative) {
            attributes[count].id = cudaLaunchAttributeCooperative;
            attributes[count++].val.cooperative = 1;
        }
        cudaLaunchConfig_t launch{};
        launch.gridDim = dim3(shape.blocks_x, shape.blocks_y);
        launch.blockDim = dim3(shape.threads_x, shape.threads_y);
        launch.dynamicSmemBytes = shape.shared_bytes;
        launch.stream = stream(queue);
        launch.attrs = attributes;
        launch.numAttrs = count;
        check(cudaLaunchKernelExC(&launch, kernel.global, arguments), "cudaLaunchKernelExC");
    }

    unsigned resident_blocks_erased(const void* global, const Shape& shape) override {
        use();
        int blocks = 0, processors = 0;
        check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                  &blocks, global, static_cast<int>(shape.threads_x * shape.threads_y), shape.shared_bytes),
              "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
        check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, info_.index),
              "cudaDeviceGetAttribute");
        return static_cast<unsigned>(blocks * processors);
    }

  private:
    void use() const { check(cudaSetDevice(info_.index), "cudaSetDevice"); }
    [[nodiscard]] cudaStream_t stream(Queue queue) const {
        return streams_[static_cast<std::size_t>(queue.index)].get();
    }
    static cudaEvent_t event(Mark mark) { return static_cast<cudaEvent_t>(mark.handle); }
    void copy_any(Queue queue, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
        if (bytes == 0) return;
        use();
        check(cudaMemcpyAsync(to, from, bytes, kind, stream(queue)), "cudaMemcpyAsync");
    }

    DeviceInfo info_;
    std::vector<Stream> streams_;
    std::vector<Event> events_;
    std::vector<ExecutableGraph> graphs_;
};

// Empty kernel attributes cannot be asked for here: this file has no kernel. The generations are those that
// the build was made for (CMake).
constexpr int k_oldest_generation = LIGHTMILL_CUDA_OLDEST;

}  // namespace

std::vector<DeviceInfo> devices(std::string& why_none) {
    std::vector<DeviceInfo> found;
    int driver = 0, runtime = 0, count = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    const auto result = cudaGetDeviceCount(&count);
    (void)cudaGetLastError();
    if (result == cudaErrorInsufficientDriver || driver == 0) {
        why_none = driver == 0
                       ? std::string("this machine has no NVIDIA driver")
                       : fmt::format("the driver knows CUDA {}.{}, this build needs {}.{}: update it",
                                     driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
        return found;
    }
    if (result != cudaSuccess) {
        why_none = fmt::format("no GPU can be used: {}", cudaGetErrorString(result));
        return found;
    }
    for (int i = 0; i < count; ++i) {
        cudaDeviceProp properties{};
        if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) {
            (void)cudaGetLastError();
            continue;
        }
        if (properties.major * 10 + properties.minor < k_oldest_generation) {
            why_none = fmt::format(
                "{} has compute capability {}.{}, this build is for {}.{} and later: configure it with "
                "-DCMAKE_CUDA_ARCHITECTURES={}{}",
                properties.name, properties.major, properties.minor, k_oldest_generation / 10,
                k_oldest_generation % 10, properties.major, properties.minor);
            continue;
        }
        found.push_back({i, properties.name, properties.major, properties.minor, properties.totalGlobalMem});
    }
    if (found.empty() && why_none.empty()) why_none = "this machine has no NVIDIA GPU";
    return found;
}

std::shared_ptr<Device> open_device(int index) {
    std::string why;
    const auto found = devices(why);
    for (const auto& info : found) {
        if (info.index == index) return std::make_shared<Gpu>(info);
    }
    if (found.empty()) throw Error(ErrorCode::unavailable, "no GPU: " + why, "cuda");
    throw OptionError("devices", fmt::format("{}", index), fmt::format("0 to {}", found.size() - 1));
}

}  // namespace lightmill::cuda
