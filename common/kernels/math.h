// Own elementary functions for one float, defined by fma polynomials so that every instruction set gives the same bits;
// the vector forms inside the kernels compute exactly these.
#pragma once

namespace kvrelay::kernels {

// exp(0) is exactly 1; exp(x < -87) is 0; exp(x > 88) is +infinity; NaN stays NaN. Within 2 ulp elsewhere.
float Exp(float x);
// Natural logarithm of x > 0. Within 2 ulp. Log(1) is exactly 0.
float Log(float x);

}  // namespace kvrelay::kernels
