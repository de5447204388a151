// What a GPU's links, memory and launches can do. Over the interface of devices, so that all of it runs in
// tests without a GPU.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lightmill/base/error.hpp"
#include "lightmill/cuda/device.hpp"
#include "lightmill/ladder/probe/null_kernel_internal.hpp"
#include "lightmill/ladder/probe/probe_internal.hpp"

namespace lightmill::ladder::detail {

#ifndef LIGHTMILL_CUDA
const void* null_kernel() noexcept {
    return nullptr;  // such a build has emulated devices only
}
#endif

namespace {

using cuda::Device;
using cuda::DeviceMemory;
using cuda::PinnedMemory;

// A frame of 400 x 400 pixels, a chunk of them, and what a link needs to reach its rate.
constexpr std::size_t k_transfers[] = {320'000, 10'000'000, 64'000'000};
constexpr int k_launches = 100;

void nothing_on_the_host(const cuda::Shape&, const NoParameters&) {}

class DeviceProber {
  public:
    DeviceProber(std::shared_ptr<Device> device, double budget_s, std::size_t buffer_bytes, Probe& into)
        : device_(std::move(device)),
          buffer_bytes_(buffer_bytes),
          slice_s_(budget_s / (3 * std::size(k_transfers) + 4)),
          into_(into),
          queues_{device_->make_queue(), device_->make_queue()},
          marks_{device_->make_mark(), device_->make_mark()} {}

    void run() {
        for (const std::size_t bytes : k_transfers) transfers(bytes);
        memory();
        launches();
    }

  private:
    // Everything queued so far is done.
    void wait() {
        for (int i = 0; i < 2; ++i) device_->record(queues_[i], marks_[i]);
        for (int i = 0; i < 2; ++i) device_->synchronize(marks_[i]);
    }
    void ceiling(const std::string& resource, std::size_t bytes, double units, const std::string& how,
                 const std::function<void()>& queue) {
        const Rates rates = measure(slice_s_, units, [&](int repeats) {
            for (int i = 0; i < repeats; ++i) queue();
            wait();
        });
        into_.ceilings.push_back({.resource = resource,
                                  .threads = 1,
                                  .best = rates.best,
                                  .median = rates.median,
                                  .passes = rates.passes,
                                  .how = how,
                                  .bytes = static_cast<std::int64_t>(bytes)});
    }
    // The rate turned round: seconds of one, where once() does `units` of them.
    void cost(const std::string& what, double units, const std::function<void()>& once) {
        const Rates rates = measure(slice_s_, units, [&](int repeats) {
            for (int i = 0; i < repeats; ++i) once();
        });
        into_.costs.push_back({what, 1 / rates.best});
    }

    void transfers(std::size_t bytes) {
        const PinnedMemory<std::byte> source(device_, bytes), sink(device_, bytes);
        const DeviceMemory<std::byte> in(device_, bytes), out(device_, bytes);
        std::fill_n(source.data(), bytes, std::byte{0x5a});  // no page is the kernel's page of zeros
        std::fill_n(sink.data(), bytes, std::byte{0});
        device_->zero(queues_[0], out.data(), bytes);
        wait();
        const auto to_device = [&] { device_->copy_in(queues_[0], in.data(), source.data(), bytes); };
        const auto to_host = [&] { device_->copy_out(queues_[1], sink.data(), out.data(), bytes); };
        const auto units = static_cast<double>(bytes);
        const std::string how = "page-locked, copies queued";
        ceiling("host_to_device", bytes, units, how, to_device);
        ceiling("device_to_host", bytes, units, how, to_host);
        ceiling("both_directions", bytes, 2 * units, how, [&] {
            to_device();
            to_host();
        });
        if (bytes != k_transfers[0]) return;
        for (const auto& [what, copy] : {std::pair<std::string, std::function<void()>>{
                                             "copy of 320 kB to the device and wait", to_device},
                                         {"copy of 320 kB to the host and wait", to_host}})
            cost(what, 1, [&, copy = copy] {
                copy();
                wait();
            });
    }

    void memory() {
        try {
            const DeviceMemory<std::byte> from(device_, buffer_bytes_), to(device_, buffer_bytes_);
            device_->zero(queues_[0], from.data(), buffer_bytes_);
            ceiling("device_copy", buffer_bytes_, 2.0 * static_cast<double>(buffer_bytes_),
                    "copies within the device",
                    [&] { device_->copy(queues_[0], to.data(), from.data(), buffer_bytes_); });
        } catch (const DeviceError& error) {
            into_.notes.push_back(fmt::format("device_copy was not measured: {}", error.what()));
        }
    }

    void launches() {
        const cuda::Kernel<NoParameters> nothing{null_kernel(), &nothing_on_the_host};
        const auto launch = [&] { device_->launch(queues_[0], nothing, {}, NoParameters{}); };
        cost("launch of a kernel that does nothing and wait", 1, [&] {
            launch();
            device_->record(queues_[0], marks_[0]);
            device_->synchronize(marks_[0]);
        });
        cost(fmt::format("launch of a kernel that does nothing, {} queued", k_launches), k_launches, [&] {
            for (int i = 0; i < k_launches; ++i) launch();
            wait();
        });
    }

    std::shared_ptr<Device> device_;
    std::size_t buffer_bytes_;
    double slice_s_;
    Probe& into_;
    Device::Queue queues_[2];
    Device::Mark marks_[2];
};

}  // namespace

void probe_device(const std::shared_ptr<cuda::Device>& device, double budget_s, std::size_t buffer_bytes,
                  Probe& into) {
    DeviceProber(device, budget_s, buffer_bytes, into).run();
}

}  // namespace lightmill::ladder::detail
