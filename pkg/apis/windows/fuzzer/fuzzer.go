// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package fuzzer fills API objects with random content that could have come
// through the API, for round trips between versions and encodings. It is for tests only.
package fuzzer

import (
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Funcs returns the functions for this API group. They give a value to what the
// served version has a default for: an object that was decoded is never without.
func Funcs(serializer.CodecFactory) []any {
	return []any{
		func(spec *windows.WindowsInstanceSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			if spec.Port == 0 {
				spec.Port = v1alpha1.DefaultPort
			}
			if spec.Username == "" {
				spec.Username = v1alpha1.DefaultUsername
			}
		},
		func(b *windows.Bastion, c randfill.Continue) {
			c.FillNoCustom(b)
			if b.Port == 0 {
				b.Port = v1alpha1.DefaultPort
			}
		},
		func(o *windows.RemovalOptions, c randfill.Continue) {
			c.FillNoCustom(o)
			if o.Policy == "" {
				o.Policy = windows.RemovalAbandon
			}
		},
		func(o *windows.DrainOptions, c randfill.Continue) {
			c.FillNoCustom(o)
			if o.TimeoutSeconds == nil {
				o.TimeoutSeconds = new(int64(v1alpha1.DefaultDrainTimeoutSeconds))
			}
			if o.IgnoreDaemonSets == nil {
				o.IgnoreDaemonSets = new(c.Bool())
			}
		},
		func(s *windows.PoolUpdateStrategy, c randfill.Continue) {
			c.FillNoCustom(s)
			if s.Type == "" {
				s.Type = windows.PoolUpdateStrategyType(v1alpha1.OnRequest)
			}
			if s.RollingUpdate.MaxUnavailable == nil {
				s.RollingUpdate.MaxUnavailable = new(intstr.FromString("10%"))
			}
			if s.RollingUpdate.MaxFailures == nil {
				s.RollingUpdate.MaxFailures = new(int32(1))
			}
			if s.RollingUpdate.OnFailure == "" {
				s.RollingUpdate.OnFailure = "Stop"
			}
			if s.Window != nil && s.Window.TimeZone == "" {
				s.Window.TimeZone = "UTC"
			}
		},
		func(u *windows.PoolWindowsUpdates, c randfill.Continue) {
			c.FillNoCustom(u)
			if u.Install == "" {
				u.Install = windows.WindowsUpdatesInstall(v1alpha1.InstallNone)
			}
		},
		func(r *windows.PoolRestarts, c randfill.Continue) {
			c.FillNoCustom(r)
			if r.Policy == "" {
				r.Policy = windows.PoolRestartPolicy(v1alpha1.RestartWhenPending)
			}
		},
		func(r *windows.PoolRemediation, c randfill.Continue) {
			c.FillNoCustom(r)
			if r.AfterSeconds == nil {
				r.AfterSeconds = new(int64(1))
			}
			if len(r.Actions) == 0 {
				r.Actions = []windows.PoolRemediationAction{windows.PoolRemediationAction(v1alpha1.RemediateRestart)}
			}
			if r.MaxUnhealthy == nil {
				r.MaxUnhealthy = new(intstr.FromInt32(1))
			}
		},
		func(o *windows.PoolDrainOptions, c randfill.Continue) {
			c.FillNoCustom(o)
			if o.TimeoutSeconds == nil {
				o.TimeoutSeconds = new(int64(v1alpha1.DefaultDrainTimeoutSeconds))
			}
			if o.DeleteEmptyDirData == nil {
				o.DeleteEmptyDirData = new(c.Bool())
			}
			if o.Force == nil {
				o.Force = new(c.Bool())
			}
		},
		func(o *windows.RebootOptions, c randfill.Continue) {
			c.FillNoCustom(o)
			if o.TimeoutSeconds == nil {
				o.TimeoutSeconds = new(int64(v1alpha1.DefaultUpdateTimeoutSeconds))
			}
		},
		func(spec *windows.WindowsInstanceRebootSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			if spec.Mode == "" {
				spec.Mode = windows.RebootGraceful
			}
			if spec.Drain == nil && spec.Mode != windows.RebootForce {
				spec.Drain = &windows.DrainOptions{}
				c.Fill(spec.Drain)
			}
		},
		func(o *windows.WindowsInstanceLogOptions, c randfill.Continue) {
			c.FillNoCustom(o)
			if o.CaseSensitive == nil {
				o.CaseSensitive = new(c.Bool())
			}
			if o.Output == "" {
				o.Output = "text"
			}
		},
	}
}
