// Selection of experts, compiled once for all instruction sets: a few numbers per row.
#pragma once

#include "backend/cpu/kernels.h"

namespace trireme::cpu {

// See Kernels<T>.
template <class T>
void route(const RouterShape& shape, Acc<T>* weights, std::int32_t* chosen, const Acc<T>* logits,
           const T* bias);
template <class T>
void update_router_bias(Acc<T>* master, T* compute, const Acc<T>* choices, double rate,
                        std::int64_t experts);
template <class T>
void update_router_load(Acc<T>* master, T* compute, const Acc<T>* choices, std::int64_t experts);
template <class T>
void route_grad(const RouterShape& shape, const RouterLosses& losses,
                const RouteGradOperands<T>& o);
template <class A>
void routed_tokens(const RouterShape& shape, const RouterLosses& losses, std::int64_t units,
                   bool plain, std::int64_t* counts, const A* logits, const std::int32_t* chosen);
template <class A>
void dispatch(const DispatchShape& shape, std::int32_t* places, std::int32_t* offsets,
              const std::int32_t* chosen, const A* weights, std::int32_t* workspace);

}  // namespace trireme::cpu
