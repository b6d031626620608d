package failures

import "testing"

func TestSick(t *testing.T) {
	const steps, seeds = 200, 50
	sick, first := 0, make(map[string]bool)
	for seed := range uint64(seeds) {
		var schedule []byte
		for step := range steps {
			mark := byte('.')
			if Sick(seed, step) {
				mark = 'x'
				sick++
			}
			schedule = append(schedule, mark)
		}
		if schedule[0] == 'x' {
			t.Errorf("seed %d: sick at the start", seed)
		}
		first[string(schedule)] = true
	}
	if share := float64(sick) / (steps * seeds); share < 0.3 || share > 0.5 || len(first) != seeds {
		t.Errorf("%.2f of the steps are sick, %d schedules of %d differ", share, len(first), seeds)
	}
}
