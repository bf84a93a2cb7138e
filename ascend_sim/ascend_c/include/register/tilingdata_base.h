// Tiling structures as a host file defines them: the kernel sees plain fields.
#pragma once
#include <cstdint>

#define BEGIN_TILING_DATA_DEF(Name) struct Name {
#define TILING_DATA_FIELD_DEF(Type, name) Type name
#define TILING_DATA_FIELD_DEF_ARR(Type, count, name) Type name[count]
#define TILING_DATA_FIELD_DEF_STRUCT(Type, name) Type name
#define END_TILING_DATA_DEF }
#define REGISTER_TILING_DATA_CLASS(Operator, Name)
