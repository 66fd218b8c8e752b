/* spectrum_score: how far a predicted spectrum is from the measured one. Plain functions, any thread. */
#pragma once

#include "base/base.h"
#include "base/json.h"

struct spectrum_score {
    double r2;            /* 1 − Σ(p − a)²/Σ(a − mean a)², the mean over the spectrum's own wavelengths */
    double rmse, mae;     /* absorbance */
    double mape_percent;  /* mean of |p − a|/|a|; wavelengths where a is 0 are left out */
    double worst;         /* largest |p − a| */
    double peak_error_nm; /* distance of the wavelengths of the two maxima */
};
/* predicted and measured at `width` wavelengths. R² of a flat measured spectrum is NaN. */
struct spectrum_score spectrum_score(const double *wavelengths, const double *predicted, const double *measured, int64_t width);
/* One JSON object; key as in base/json.h. */
void spectrum_score_put(struct json_writer *w, const char *key, const struct spectrum_score *s);
