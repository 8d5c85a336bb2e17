"""One-shot forms of the regression metrics."""

from __future__ import annotations

from .. import regression as r
from .one_shot import by_columns, one_shot

concordance_corrcoef = by_columns(r.ConcordanceCorrCoef, "concordance_corrcoef")
continuous_ranked_probability_score = one_shot(r.ContinuousRankedProbabilityScore, "continuous_ranked_probability_score")
cosine_similarity = one_shot(r.CosineSimilarity, "cosine_similarity")
critical_success_index = one_shot(r.CriticalSuccessIndex, "critical_success_index")
explained_variance = one_shot(r.ExplainedVariance, "explained_variance")
jensen_shannon_divergence = one_shot(r.JensenShannonDivergence, "jensen_shannon_divergence")
kendall_rank_corrcoef = by_columns(r.KendallRankCorrCoef, "kendall_rank_corrcoef")
kl_divergence = one_shot(r.KLDivergence, "kl_divergence")
log_cosh_error = by_columns(r.LogCoshError, "log_cosh_error")
mean_absolute_error = one_shot(r.MeanAbsoluteError, "mean_absolute_error")
mean_absolute_percentage_error = one_shot(r.MeanAbsolutePercentageError, "mean_absolute_percentage_error")
mean_squared_error = one_shot(r.MeanSquaredError, "mean_squared_error")
mean_squared_log_error = one_shot(r.MeanSquaredLogError, "mean_squared_log_error")
minkowski_distance = one_shot(r.MinkowskiDistance, "minkowski_distance")
normalized_root_mean_squared_error = one_shot(r.NormalizedRootMeanSquaredError, "normalized_root_mean_squared_error")
pearson_corrcoef = by_columns(r.PearsonCorrCoef, "pearson_corrcoef")
r2_score = one_shot(r.R2Score, "r2_score")
relative_squared_error = by_columns(r.RelativeSquaredError, "relative_squared_error")
spearman_corrcoef = by_columns(r.SpearmanCorrCoef, "spearman_corrcoef")
symmetric_mean_absolute_percentage_error = one_shot(r.SymmetricMeanAbsolutePercentageError, "symmetric_mean_absolute_percentage_error")
tweedie_deviance_score = one_shot(r.TweedieDevianceScore, "tweedie_deviance_score")
weighted_mean_absolute_percentage_error = one_shot(r.WeightedMeanAbsolutePercentageError, "weighted_mean_absolute_percentage_error")

__all__ = [
    "concordance_corrcoef",
    "continuous_ranked_probability_score",
    "cosine_similarity",
    "critical_success_index",
    "explained_variance",
    "jensen_shannon_divergence",
    "kendall_rank_corrcoef",
    "kl_divergence",
    "log_cosh_error",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_squared_error",
    "mean_squared_log_error",
    "minkowski_distance",
    "normalized_root_mean_squared_error",
    "pearson_corrcoef",
    "r2_score",
    "relative_squared_error",
    "spearman_corrcoef",
    "symmetric_mean_absolute_percentage_error",
    "tweedie_deviance_score",
    "weighted_mean_absolute_percentage_error",
]
