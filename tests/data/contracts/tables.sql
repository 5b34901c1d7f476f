CREATE TABLE trajectories (
 trajectory_id TEXT PRIMARY KEY, purpose TEXT NOT NULL, stage TEXT NOT NULL, -- train evaluation demonstration audit
 group_id BIGINT NOT NULL, slot SMALLINT NOT NULL, attempt SMALLINT NOT NULL,
 task_id TEXT NOT NULL, task_source TEXT NOT NULL, task_revision TEXT NOT NULL, task_split TEXT NOT NULL,
 environment TEXT NOT NULL, environment_revision TEXT NOT NULL, sandbox_profile TEXT,
 reset_seed BIGINT NOT NULL, initial_state_hash TEXT,
 rendering_revision TEXT NOT NULL, -- digest of tokenizer, template, tool schemas
 lineage TEXT, parent_trajectory_id TEXT, -- retry_of forked_from resumed_from replay_of
 terminal_reason TEXT NOT NULL, failure_class TEXT, failure_cause TEXT, -- task infrastructure grading abandoned
 reward DOUBLE, unscored_reason TEXT, reward_rule TEXT NOT NULL, -- one of the first two; composition's revision
 reward_components STRUCT(name TEXT, value DOUBLE, weight DOUBLE)[] NOT NULL, -- raw
 artifacts STRUCT(name TEXT, sha256 TEXT, bytes BIGINT, media_type TEXT)[] NOT NULL,
 num_turns SMALLINT NOT NULL, num_tokens INT NOT NULL, num_action_tokens INT NOT NULL,
 started_at TIMESTAMP NOT NULL, ended_at TIMESTAMP NOT NULL,
 queue_s FLOAT NOT NULL, sampling_s FLOAT NOT NULL, tools_s FLOAT NOT NULL, verifying_s FLOAT NOT NULL, cost DOUBLE);
CREATE TABLE segments (
 trajectory_id TEXT, segment INT, parent INT, -- null opens a context
 context SMALLINT NOT NULL, spawned_by TEXT, -- call_id, on a root
 start INT NOT NULL, num_tokens INT NOT NULL, -- position in its context
 origin TEXT NOT NULL, -- task policy tool environment user demonstration teacher template replayed
 actor TEXT NOT NULL, turn SMALLINT NOT NULL,
 token_ids INT[] NOT NULL, behavior_logprobs FLOAT[], policy TEXT, policy_version INT, -- where a model sampled
 cache_version INT, -- oldest weights in its cache
 sampling STRUCT(temperature FLOAT, top_p FLOAT, top_k INT, min_p FLOAT, processors TEXT[]),
 spans STRUCT(kind TEXT, token_start INT, token_end INT)[], -- action types: reasoning answer tool_call stop
 finish TEXT, copied_from INT, -- the segment that it renders again
 call_id TEXT, state_hash TEXT, -- what it answers, state after it
 PRIMARY KEY (trajectory_id, segment));
CREATE TABLE tensors ( -- optional
 trajectory_id TEXT, segment INT, name TEXT, -- support_counts support_ids routed_experts topk_ids topk_logprobs
 dtype TEXT NOT NULL, shape INT[] NOT NULL, data BLOB, sha256 TEXT, -- inline or in blobs/
 PRIMARY KEY (trajectory_id, segment, name));
CREATE TABLE tool_calls (
 call_id TEXT PRIMARY KEY, trajectory_id TEXT NOT NULL, asked_in INT NOT NULL, answered_in INT, turn SMALLINT NOT NULL,
 tool TEXT NOT NULL, tool_revision TEXT NOT NULL, arguments TEXT NOT NULL, status TEXT NOT NULL, -- ok tool_error invalid_call timeout limit refused
 result TEXT, result_sha256 TEXT, result_bytes BIGINT NOT NULL, retention TEXT NOT NULL, -- inline blob dropped
 started_at TIMESTAMP NOT NULL, latency_s FLOAT NOT NULL, cost DOUBLE);
CREATE TABLE verdicts (
 trajectory_id TEXT, scoring SMALLINT, -- 0 is trained on; above 0 re-scored
 verifier TEXT, verifier_revision TEXT NOT NULL, scope TEXT, segment INT, token_start INT, token_end INT NOT NULL, -- half open; -1 0 0: no span
 status TEXT NOT NULL, error_cause TEXT, value DOUBLE, components STRUCT(name TEXT, value DOUBLE)[] NOT NULL,
 finding TEXT, -- the policy's doing: no_answer unparsable_answer program_timeout
 evidence TEXT, latency_s FLOAT NOT NULL, cost DOUBLE,
 PRIMARY KEY (trajectory_id, scoring, verifier, scope, segment, token_start));
CREATE TABLE receipts (
 step INT NOT NULL, update BIGINT, model TEXT, component TEXT, -- policy critic; policy_gradient kl value nll distillation entropy
 trajectory_id TEXT, segment INT, row_index INT NOT NULL, lag SMALLINT NOT NULL, -- row: section 4
 num_eligible INT NOT NULL, num_kept INT NOT NULL,
 untrained_reason TEXT, -- all of it: zero_contrast unscored truncated stale rejected
 advantage STRUCT(n INT[], v FLOAT[]), -- runs are null under retention `sums`
 token_weight STRUCT(n INT[], v DOUBLE[]), -- final scale included
 correction STRUCT(n INT[], v FLOAT[]), -- detached; null: 1 everywhere
 flags STRUCT(n INT[], v USMALLINT[]), -- bits: section 3
 proximal_logprobs FLOAT[], -- null: bypass, ratio current/behavior
 current_logprobs FLOAT[], -- null: equal to proximal
 reference_logprobs FLOAT[], teacher_logprobs FLOAT[],
 predicted_values FLOAT[], value_targets FLOAT[],
 entropy FLOAT, max_log_ratio FLOAT, -- over kept tokens
 loss DOUBLE NOT NULL, influence DOUBLE NOT NULL, -- Σ |weight·correction·advantage|, kept tokens
 PRIMARY KEY (update, model, component, trajectory_id, segment));
CREATE TABLE ledger ( -- purpose train only; a slot's state is its last row
 seq BIGINT PRIMARY KEY, recorded_at TIMESTAMP NOT NULL, step INT NOT NULL, group_id BIGINT NOT NULL, slot SMALLINT NOT NULL, attempt SMALLINT NOT NULL,
 task_id TEXT NOT NULL, task_source TEXT NOT NULL, state TEXT NOT NULL, -- in_flight ready trained filtered expired failed requeued
 rule TEXT, trajectory_id TEXT, successor BIGINT, policy_version INT NOT NULL);
CREATE TABLE metrics ( -- key (step, update, name, labels)
 step INT NOT NULL, update BIGINT NOT NULL, name TEXT NOT NULL, value DOUBLE, unit TEXT NOT NULL, -- update 0: of the step; null: undefined, never 0
 labels MAP(TEXT, TEXT) NOT NULL, num_items BIGINT NOT NULL, recorded_at TIMESTAMP NOT NULL);
CREATE TABLE evaluations ( -- key (evaluation, metric, labels)
 evaluation TEXT NOT NULL, protocol TEXT NOT NULL, protocol_sha256 TEXT NOT NULL, policy TEXT NOT NULL, policy_version INT NOT NULL, step INT NOT NULL,
 metric TEXT NOT NULL, value DOUBLE, low DOUBLE, high DOUBLE, level FLOAT NOT NULL, interval_method TEXT NOT NULL,
 labels MAP(TEXT, TEXT) NOT NULL, num_tasks INT NOT NULL, num_trajectories INT NOT NULL, num_unscored INT NOT NULL, recorded_at TIMESTAMP NOT NULL);
