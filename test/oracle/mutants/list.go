package main

// mutant is a fault in one or two lines, such as a change may introduce by mistake.
type mutant struct {
	what     string // description, unique
	file     string // relative to the root of the repository
	old, new string // old must occur once in the file
}

const (
	tickFile    = "core/internal/engine/tick.go"
	gateFile    = "core/internal/engine/gate.go"
	foldFile    = "core/internal/engine/fold.go"
	workerFile  = "core/internal/engine/worker.go"
	claimFile   = "core/internal/engine/claim.go"
	restartFile = "core/manager/restart.go"
	storeFile   = "core/manager/store.go"
	statusFile  = "core/manager/status.go"
	managerFile = "core/manager/manager.go"
	attemptFile = "core/worker/attempt.go"
	taskFile    = "core/worker/task.go"
	probesFile  = "core/declared/probe.go"
	podFile     = "core/manager/pod.go"
	resultsFile = "core/results/results.go"
	queueFile   = "core/results/queue.go"
)

var mutants = []mutant{
	{
		"a worker that is asleep is not woken by a new state", taskFile,
		"if i.publish(s) {\n\t\ti.wake()\n\t}",
		"i.publish(s)",
	},
	{
		"a worker sleeps during its initial delay", gateFile,
		"worker.NotStarted, worker.Started, worker.Paused:\n\t\treturn true",
		"worker.NotStarted, worker.Started, worker.Paused, worker.InitialDelay:\n\t\treturn true",
	},
	{
		"a worker that is woken ticks at once", workerFile,
		"next != w.due {\n\t\tw.due, w.step = next",
		"next != w.due {\n\t\tw.due, w.step = w.due",
	},
	{
		"a worker that is woken ticks a period late", workerFile,
		"return w.due + (late/period+1)*period",
		"return w.due + (late/period+2)*period",
	},
	{
		"a lost pod keeps the status that was published", podFile,
		"\t\tt.task.SetState(worker.State{})\n",
		"",
	},
	{
		"the present status is not published to a new watcher", storeFile,
		"\tif p.status != nil {\n\t\tpublish(",
		"\tif p.status != nil && false {\n\t\tpublish(",
	},
	{
		"a start in the future is not waited for", gateFile,
		"return delay - age",
		"return delay - max(age, 0)",
	},
	{
		"a success after the deadline is a failure", attemptFile,
		"if err != nil && ctx.Err() == context.DeadlineExceeded && errors.Is(err, context.DeadlineExceeded) {",
		"if ctx.Err() == context.DeadlineExceeded {",
	},
	{
		"a rule with an unknown action restarts", restartFile,
		"ok &&\n\t\t\t(action == v1.ContainerRestartRuleActionRestart || action == v1.ContainerRestartRuleActionRestartAllContainers) {",
		"ok && action != \"\" {",
	},
	{
		"probes of plain init containers get workers", probesFile,
		"IsSidecar(c) {",
		"c.Name != \"\" {",
	},
	{
		"restart rules count without a container policy", restartFile,
		"\tif r.policy != nil {\n\t\tif action",
		"\tif action, ok := r.matching(exitCode); ok && action == v1.ContainerRestartRuleActionRestart {\n\t\treturn true\n\t}\n\tif r.policy != nil {\n\t\tif action",
	},
	{
		"a liveness Failure is not sent", resultsFile,
		"\tfor _, q := range *c.queues.Load() {\n\t\tq.put(e.update(c.kind, containerID), e.parent())",
		"\tfor _, q := range *c.queues.Load() {\n\t\tif c.kind == probe.Liveness && r == Failure {\n\t\t\tcontinue\n\t\t}\n\t\tq.put(e.update(c.kind, containerID), e.parent())",
	},
	{
		"thresholds are one more", foldFile,
		"next.length < threshold",
		"next.length <= threshold && threshold > 1",
	},
	{
		"a hold does not reset the run", foldFile,
		"next.hold, next.length = true, 0",
		"next.hold = true",
	},
	{
		"a liveness success holds", foldFile,
		"\treturn kind == probe.Startup\n",
		"\treturn kind != probe.Readiness\n",
	},
	{
		"a new container does not end the hold", gateFile,
		"case w.run.hold && s.ContainerID == w.id:",
		"case w.run.hold:",
	},
	{
		"StopLivenessAndStartup stops readiness", managerFile,
		"id.Kind != probe.Readiness && names[id.Task]",
		"names[id.Task]",
	},
	{
		"an error counts as a failure", tickFile,
		"t.Err == nil || w.countsAsFailure(spec, t.Err)",
		"true",
	},
	{
		"a failure is retried", tickFile,
		"if t.Err == nil || !retries(t.Err)",
		"if t.Err == nil && t.Outcome.Result != probe.Failure || t.Err != nil && !retries(t.Err)",
	},
	{
		"the deletion of the pod is checked before the end of the container", gateFile,
		"case !s.Running:",
		"case !s.Running && (!s.Deleting || w.kind == probe.Readiness):",
	},
	{
		"started is checked before the initial delay", gateFile,
		"case w.delayLeftLocked(now, s) > 0:",
		"case w.delayLeftLocked(now, s) > 0 && !s.Started:",
	},
	{
		"a trigger does not restart the period", workerFile,
		"\t\tw.due = at + int64(w.step)\n",
		"",
	},
	{
		"the age of a container is not truncated to seconds", gateFile,
		"age = age.Truncate(time.Second)",
		"age = age.Truncate(time.Millisecond)",
	},
	{
		"a removal is not sent", resultsFile,
		"\tu.Removed = true\n\tfor _, q := range *c.queues.Load() {\n",
		"\tu.Removed = true\n\tfor _, q := range (*c.queues.Load())[:0] {\n",
	},
	{
		"a removal replaces an unread result", queueFile,
		"\t\tp.removal = true\n",
		"\t\tp.result, p.removal = false, true\n",
	},
	{
		"the result of a replaced container stays", claimFile,
		"\tw.dropLocked()\n\tw.id, w.adopted = \"\", false\n\tif other",
		"\tw.id, w.adopted = \"\", false\n\tif other",
	},
	{
		"the first result is not stored if it is the initial one", workerFile,
		"if w.stored && w.decided == r {",
		"if w.decided == r {",
	},
	{
		"a pod that has succeeded keeps its workers", podFile,
		"status.Phase == v1.PodFailed || status.Phase == v1.PodSucceeded",
		"status.Phase == v1.PodFailed",
	},
	{
		"a plain init container is ready whatever its exit code", statusFile,
		"c.State.Terminated != nil && c.State.Terminated.ExitCode == 0:",
		"c.State.Terminated != nil:",
	},
	{
		"the exit of a regular container does not restart all", restartFile,
		"\t\tstatuses := status.ContainerStatuses\n",
		"\t\tvar statuses []v1.ContainerStatus\n",
	},
	{
		"a rule with an unknown operator is one with In", restartFile,
		"\t\tcase v1.ContainerRestartRuleOnExitCodesOpIn:\n",
		"\t\tdefault:\n",
	},
	{
		"readiness over a restart of the agent depends on the decided result", statusFile,
		"if probed && !conditionTrue(u.pod.Status.Conditions, v1.PodReady) {",
		"if probed && decided && !conditionTrue(u.pod.Status.Conditions, v1.PodReady) {",
	},
}
