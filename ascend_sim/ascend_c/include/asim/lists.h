// Lists of tensors: the bytes behind an argument that is a list (arguments.py, list_bytes).
#pragma once
#include "asim/launch.h"

namespace AscendC {

template <class T> class TensorDesc {
public:
    void SetShapeAddr(uint64_t *shape) { shape_ = shape; }
    uint64_t GetDim() const { return dim_; }
    uint64_t GetIndex() const { return index_; }
    uint64_t GetShape(uint32_t axis) const { return shape_[axis]; }
    T *GetDataPtr() const { return data_; }
    GlobalTensor<std::remove_cv_t<T>> GetDataObj() const {
        GlobalTensor<std::remove_cv_t<T>> whole;
        whole.SetGlobalBuffer(data_);
        return whole;
    }

private:
    friend class ListTensorDesc;
    uint64_t *shape_ = nullptr, dim_ = 0, index_ = 0;
    T *data_ = nullptr;
};

// Words of 64 bits: bytes to the addresses of the tensors; for each tensor its dimensions (low half) with its index (high
// half), then its sizes; the addresses.
class ListTensorDesc {
public:
    ListTensorDesc() = default;
    ListTensorDesc(void *data, uint32_t length = ~0u, uint32_t count = ~0u, ASIM_SITE) { Init(data, length, count, site); }
    void Init(void *data, uint32_t length = ~0u, uint32_t count = ~0u, ASIM_SITE) {
        if ((uint64_t)data >> asim::GM_SHIFT <= asim::MOST_TENSORS)
            asim::refuse(site, "ListTensorDesc: the argument is not a list; give the kernel a list of tensors there");
        const uint64_t *words = (const uint64_t *)data;
        shapes_ = words + 1;
        addresses_ = words + words[0] / sizeof(uint64_t);
        size_ = 0;
        for (const uint64_t *one = shapes_; one < addresses_; one = after(one)) size_++;
        if (count != ~0u && count != size_)
            asim::refuse(site, "ListTensorDesc: a list of %u tensors where the kernel says %u", size_, count);
        if (uint32_t bytes = words[0] + size_ * sizeof(uint64_t); length != ~0u && length != bytes)
            asim::refuse(site, "ListTensorDesc: a list of %u bytes where the kernel says %u", bytes, length);
    }
    uint32_t GetSize() const { return size_; }
    template <class T> T *GetDataPtr(uint32_t index, ASIM_SITE) const {
        check(site, index);
        return (T *)addresses_[index];
    }
    template <class T> void GetDesc(TensorDesc<T> &one, uint32_t index, ASIM_SITE) const {
        check(site, index);
        if (!one.shape_) asim::refuse(site, "GetDesc: TensorDesc without room for the sizes; call SetShapeAddr before");
        const uint64_t *words = shapes_;
        for (uint32_t i = 0; i < index; i++) words = after(words);
        one.dim_ = (uint32_t)words[0];
        one.index_ = words[0] >> 32;
        memcpy(one.shape_, words + 1, one.dim_ * sizeof(uint64_t));
        one.data_ = (T *)addresses_[index];
    }

private:
    static const uint64_t *after(const uint64_t *words) { return words + 1 + (uint32_t)words[0]; }
    void check(asim::Site site, uint32_t index) const {
        if (index >= size_) asim::refuse(site, "ListTensorDesc: tensor %u of a list of %u", index, size_);
    }
    const uint64_t *shapes_ = nullptr, *addresses_ = nullptr;
    uint32_t size_ = 0;
};

}  // namespace AscendC
