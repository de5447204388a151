#pragma once
// A device that copies and computes in queues beside the host: a CUDA GPU, or the emulated one, on which the
// engines over this interface are tested where there is no GPU.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lightmill::cuda {

// Blocks of a launch, threads of a block, and the bytes of shared memory of a block.
struct Shape {
    unsigned blocks_x = 1, blocks_y = 1;
    unsigned threads_x = 1, threads_y = 1;
    unsigned shared_bytes = 0;
    // The kernel may begin while the one before it in the queue still runs: it waits for that itself, before
    // it touches what that wrote. Devices that cannot do this begin it afterwards.
    bool early = false;
    // All blocks are there at the same time and may wait for each other; resident_blocks() says how many can
    // be.
    bool cooperative = false;
};

// The same kernel for both kinds of device. `global` is the __global__ function, which takes the
// parameters by value, or null in a build without CUDA; `host` runs all blocks, one after the other.
template <class Parameters>
struct Kernel {
    const void* global = nullptr;
    void (*host)(const Shape&, const Parameters&) = nullptr;
};

// One user's work on one GPU: queues of its own, in which copies and kernels run in order, and marks
// between them. Queues, marks, graphs and memory belong to the device that made them and end with it.
// Functions that queue return at once: what they read and write must stay until a mark behind it is done.
// Calls throw DeviceError. Not for two threads at once, except free(), free_pinned() and pinned().
class Device {
  public:
    struct Queue {
        int index = 0;
    };
    struct Mark {
        void* handle = nullptr;
    };

    struct Graph {
        int index = 0;
    };

    Device() = default;
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    virtual ~Device() = default;

    // "NVIDIA H200"
    [[nodiscard]] virtual std::string name() const = 0;

    // Uninitialised. A DeviceError that says out_of_memory() where there is none.
    [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
    virtual void free(void* memory) noexcept = 0;
    // On the host, page-locked: what copies reach at full speed and kernels can write to.
    [[nodiscard]] virtual void* allocate_pinned(std::size_t bytes) = 0;
    virtual void free_pinned(void* memory) noexcept = 0;
    // Locks the pages of memory that is there already; unpin() before it is freed.
    virtual void pin(const void* memory, std::size_t bytes) = 0;
    virtual void unpin(const void* memory) noexcept = 0;
    [[nodiscard]] virtual bool pinned(const void* memory) const noexcept = 0;

    [[nodiscard]] virtual Queue make_queue() = 0;
    [[nodiscard]] virtual Mark make_mark() = 0;
    // The mark is done once everything queued before is. Recording again moves it.
    virtual void record(Queue queue, Mark mark) = 0;
    // What is queued behind begins when the mark, as it was last recorded, is done. It may be another
    // device's.
    virtual void wait(Queue queue, Mark mark) = 0;
    [[nodiscard]] virtual bool done(Mark mark) = 0;
    virtual void synchronize(Mark mark) = 0;

    virtual void copy_in(Queue queue, void* device, const void* host, std::size_t bytes) = 0;
    // `count` pieces of `bytes` each, `host_step` bytes apart on the host, dense on the device.
    virtual void copy_in_pieces(Queue queue, void* device, const void* host, std::size_t bytes,
                                std::size_t host_step, std::size_t count) = 0;
    virtual void copy_out(Queue queue, void* host, const void* device, std::size_t bytes) = 0;
    // Between devices, or within one.
    virtual void copy(Queue queue, void* to, const void* from, std::size_t bytes) = 0;
    virtual void zero(Queue queue, void* device, std::size_t bytes) = 0;

    // What is queued between the two calls is not done but kept, to be done as one by replay(), as often as
    // wanted. Marks may not be recorded or waited for in between.
    virtual void begin_capture(Queue queue) = 0;
    [[nodiscard]] virtual Graph end_capture(Queue queue) = 0;
    virtual void replay(Queue queue, Graph graph) = 0;

    template <class Parameters>
    void launch(Queue queue, const Kernel<Parameters>& kernel, const Shape& shape,
                const Parameters& parameters) {
        launch_erased(queue,
                      {kernel.global, &call_host<Parameters>, reinterpret_cast<void (*)()>(kernel.host)},
                      shape, &parameters, sizeof(Parameters));
    }

    // Blocks of such a launch that the device holds at the same time.
    template <class Parameters>
    [[nodiscard]] unsigned resident_blocks(const Kernel<Parameters>& kernel, const Shape& shape) {
        return resident_blocks_erased(kernel.global, shape);
    }

  protected:
    struct ErasedKernel {
        const void* global;
        void (*call_host)(void (*host)(), const Shape&, const void* parameters);
        void (*host)();
    };
    virtual void launch_erased(Queue queue, const ErasedKernel& kernel, const Shape& shape,
                               const void* parameters, std::size_t size) = 0;
    virtual unsigned resident_blocks_erased(const void* global, const Shape& shape) = 0;

  private:
    template <class Parameters>
    static void call_host(void (*host)(), const Shape& shape, const void* parameters) {
        reinterpret_cast<void (*)(const Shape&, const Parameters&)>(host)(
            shape, *static_cast<const Parameters*>(parameters));
    }
};

// Memory of a device, or page-locked memory of the host, for plain values. Not initialised.
template <class T, bool pinned>
class Memory {
  public:
    Memory() noexcept = default;
    Memory(std::shared_ptr<Device> device, std::size_t size) : device_(std::move(device)), size_(size) {
        if (size > 0) {
            data_ = static_cast<T*>(pinned ? device_->allocate_pinned(size * sizeof(T))
                                           : device_->allocate(size * sizeof(T)));
        }
    }
    Memory(Memory&& other) noexcept
        : device_(std::move(other.device_)),
          data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)) {}
    Memory& operator=(Memory&& other) noexcept {
        std::swap(device_, other.device_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Memory() {
        if (data_ == nullptr) return;
        if (pinned) {
            device_->free_pinned(data_);
        } else {
            device_->free(data_);
        }
    }
    [[nodiscard]] T* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

  private:
    std::shared_ptr<Device> device_;
    T* data_ = nullptr;
    std::size_t size_ = 0;
};
template <class T>
using DeviceMemory = Memory<T, false>;
template <class T>
using PinnedMemory = Memory<T, true>;

// Copies values to a device and waits until they are there.
template <class T>
[[nodiscard]] DeviceMemory<T> upload(const std::shared_ptr<Device>& device, Device::Queue queue,
                                     const std::vector<T>& values) {
    DeviceMemory<T> memory(device, values.size());
    device->copy_in(queue, memory.data(), values.data(), values.size() * sizeof(T));
    const auto mark = device->make_mark();
    device->record(queue, mark);
    device->synchronize(mark);
    return memory;
}
// Copies `count` values from a device behind what is queued, and waits until they are here. mark: any one.
template <class T>
[[nodiscard]] std::vector<T> download(Device& device, Device::Queue queue, Device::Mark mark, const T* memory,
                                      std::size_t count) {
    std::vector<T> values(count);
    device.copy_out(queue, values.data(), memory, count * sizeof(T));
    device.record(queue, mark);
    device.synchronize(mark);
    return values;
}

struct DeviceInfo {
    int index = 0;
    std::string name;
    int major = 0, minor = 0;        // compute capability
    std::uint64_t memory_bytes = 0;  // of the device
};
// The GPUs of this machine that this build can use. Where there is none, `why_none` says why:
// no driver, one that is too old, no GPU, one of another generation, or a build without CUDA.
[[nodiscard]] std::vector<DeviceInfo> devices(std::string& why_none);

// Throws Error(unavailable) where there is no such GPU.
[[nodiscard]] std::shared_ptr<Device> open_device(int index);

// `count` devices that are played by the host. Nothing runs before it must: work waits in its queues until
// a mark is asked for, and then the queues take turns in a random order, so that a missing wait shows.
// memory_bytes: the most that may be allocated on each; 0: no limit.
[[nodiscard]] std::vector<std::shared_ptr<Device>> emulated_devices(int count, std::uint64_t seed,
                                                                    std::size_t memory_bytes = 0);

}  // namespace lightmill::cuda
