// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// nobody is told what hosts wait for.
func nobody(context.Context, types.NamespacedName) {}

// BenchmarkDecide makes a pass over fleets whose hosts are all outdated, in twenty pools, with as many at a time as stands
// in the name, and says what each host of it takes.
func BenchmarkDecide(b *testing.B) {
	for _, atOnce := range []int{1, 100} {
		var fewest float64 // µs for each host in the smallest fleet
		for _, count := range []int{500, 2000, 10000} {
			b.Run(fmt.Sprintf("hosts=%d/atOnce=%d", count, atOnce), func(b *testing.B) {
				instances := make([]*v1alpha1.WindowsInstance, count)
				pools := map[poolKey]*v1alpha1.WindowsNodePool{}
				for n := range instances {
					i := works()
					i.Namespace, i.Name, i.UID = fmt.Sprintf("ns-%d", n%4), fmt.Sprintf("host-%d", n), types.UID(fmt.Sprint(n))
					i.Spec.PoolRef = &v1alpha1.PoolReference{Name: fmt.Sprintf("p-%d", n%20)}
					i.Status.DesiredRevision = "r3"
					instances[n] = i
					pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: i.Spec.PoolRef.Name}}
					pool.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(int32(atOnce)))
					pool.Spec.Restarts.Policy = v1alpha1.RestartWhenPending
					pools[poolKey{i.Namespace, i.Spec.PoolRef.Name}] = pool
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for b.Loop() {
					s := state{hosts: make([]host, 0, count), pools: map[poolKey]policy{}, disruptions: atOnce, now: testNow}
					for key, pool := range pools {
						s.pools[key] = policyOf(pool, count/20)
					}
					for _, i := range instances {
						h := newHost(i)
						h.update, h.impact = true, v1alpha1.ImpactDrain
						h.restart, h.restartDue = restartOf(i, pools[h.pool], testNow)
						h.remedy = remedyOf(i, pools[h.pool])
						s.hosts = append(s.hosts, h)
					}
					d := decide(s)
					if len(d.start) != atOnce {
						b.Fatalf("%d are started", len(d.start))
					}
					(&Scheduler{notifyPool: nobody, notifyInstance: nobody}).publish(b.Context(), d)
				}
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N*count), "B/host")
				each := float64(b.Elapsed()) / float64(time.Microsecond) / float64(b.N*count)
				b.ReportMetric(each, "µs/host")
				if fewest == 0 {
					fewest = each
				}
				b.ReportMetric(each/fewest, "ratio-to-500") // 1: what a host costs does not depend on how many there are
			})
		}
	}
}
