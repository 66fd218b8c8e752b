#include "geodesic/spectrum_score.h"

struct spectrum_score spectrum_score(const double *wavelengths, const double *predicted, const double *measured, int64_t width) {
    struct spectrum_score s = {0};
    double mean = 0, squares = 0, spread = 0, relative = 0;
    int64_t counted = 0, peak = 0, found = 0;
    for (int64_t i = 0; i < width; i++)
        mean += measured[i] / (double)width;
    for (int64_t i = 0; i < width; i++) {
        double error = predicted[i] - measured[i];
        squares += error * error;
        spread += (measured[i] - mean) * (measured[i] - mean);
        s.mae += fabs(error) / (double)width;
        s.worst = fmax(s.worst, fabs(error));
        if (measured[i] != 0) {
            relative += fabs(error / measured[i]);
            counted++;
        }
        peak = measured[i] > measured[peak] ? i : peak;
        found = predicted[i] > predicted[found] ? i : found;
    }
    s.r2 = spread > 0 ? 1 - squares / spread : NAN;
    s.rmse = sqrt(squares / (double)width);
    s.mape_percent = counted ? 100 * relative / (double)counted : NAN;
    s.peak_error_nm = fabs(wavelengths[found] - wavelengths[peak]);
    return s;
}

void spectrum_score_put(struct json_writer *w, const char *key, const struct spectrum_score *s) {
    JSON_OBJECT(w, key, *s, r2, rmse, mae, mape_percent, worst, peak_error_nm);
}
