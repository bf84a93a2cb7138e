// Tensors in GM and in the Unified Buffer: an address and a length, never memory.
#pragma once
#include "asim/types.h"

namespace AscendC {

template <class T> class GlobalTensor {
public:
    using PrimType = T;
    void SetGlobalBuffer(T *buffer, uint64_t size) { start_ = buffer, size_ = size; }
    void SetGlobalBuffer(T *buffer) { start_ = buffer, size_ = 0; }
    T *GetPhyAddr() const { return start_; }
    T *GetPhyAddr(uint64_t offset) const { return start_ + offset; }
    GlobalTensor operator[](uint64_t offset) const {
        GlobalTensor piece = *this;
        piece.start_ += offset;
        return piece;
    }
    uint64_t GetSize() const { return size_; }

private:
    T *start_ = nullptr;
    uint64_t size_ = 0;
};

template <class T> class LocalTensor {
public:
    using PrimType = T;
    LocalTensor() = default;
    LocalTensor(TPosition position, uint32_t address, uint32_t elements)
        : position_(position), address_(address), bytes_(elements * sizeof(T)) {}
    LocalTensor operator[](uint32_t offset) const {
        LocalTensor piece = *this;
        piece.address_ += offset * sizeof(T);
        piece.bytes_ -= offset * sizeof(T);
        return piece;
    }
    template <class U> LocalTensor<U> ReinterpretCast() const {
        return LocalTensor<U>(position_, address_, bytes_ / sizeof(U));
    }
    uint32_t GetSize() const { return bytes_ / sizeof(T); }
    uint32_t GetLength() const { return bytes_; }
    void SetSize(uint32_t elements) { bytes_ = elements * sizeof(T); }
    TPosition GetPosition() const { return position_; }
    // An address of the simulated buffer, where no memory of this process lies.
    T *GetPhyAddr() const { return (T *)(uint64_t)address_; }
    T *GetPhyAddr(uint32_t offset) const { return GetPhyAddr() + offset; }
    int64_t asim_address() const { return address_; }

private:
    TPosition position_ = TPosition::VECCALC;
    uint32_t address_ = 0, bytes_ = 0;
};

}  // namespace AscendC

namespace asim {
template <class T> inline int64_t at(const AscendC::LocalTensor<T> &tensor) { return tensor.asim_address(); }
template <class T> inline int64_t at(const AscendC::GlobalTensor<T> &tensor) { return (int64_t)tensor.GetPhyAddr(); }
}  // namespace asim
