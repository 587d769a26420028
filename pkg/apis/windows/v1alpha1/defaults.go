// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import "k8s.io/apimachinery/pkg/util/intstr"

const (
	// DefaultPort is the port of an SSH server.
	DefaultPort = 22
	// DefaultUsername is the built-in administrator of Windows.
	DefaultUsername = "Administrator"
)

// SetDefaults_WindowsInstanceSpec fills in what a user may leave out.
func SetDefaults_WindowsInstanceSpec(spec *WindowsInstanceSpec) {
	if spec.Port == 0 {
		spec.Port = DefaultPort
	}
	if spec.Username == "" {
		spec.Username = DefaultUsername
	}
}

// SetDefaults_Bastion fills in what a user may leave out.
func SetDefaults_Bastion(b *Bastion) {
	if b.Port == 0 {
		b.Port = DefaultPort
	}
}

// SetDefaults_RemovalOptions fills in what a user may leave out.
func SetDefaults_RemovalOptions(o *RemovalOptions) {
	if o.Policy == "" {
		o.Policy = RemovalClean
	}
}

// SetDefaults_WindowsInstanceLogOptions fills in what a user may leave out. It is
// not called for a request without any query string.
func SetDefaults_WindowsInstanceLogOptions(o *WindowsInstanceLogOptions) {
	if o.CaseSensitive == nil {
		o.CaseSensitive = new(true)
	}
	if o.Output == "" {
		o.Output = "text"
	}
}

// SetDefaults_PoolUpdateStrategy fills in what a user may leave out: hosts are updated one after the
// other, until the first one is broken by it.
func SetDefaults_PoolUpdateStrategy(s *PoolUpdateStrategy) {
	if s.Type == "" {
		s.Type = RollingUpdate
	}
	if s.RollingUpdate.MaxUnavailable == nil {
		s.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
	}
	if s.RollingUpdate.MaxFailures == nil {
		s.RollingUpdate.MaxFailures = new(int32(0))
	}
	if s.RollingUpdate.OnFailure == "" {
		s.RollingUpdate.OnFailure = FailureStop
	}
}

// SetDefaults_PoolRestarts fills in what a user may leave out: nothing is restarted that nobody asked for.
func SetDefaults_PoolRestarts(r *PoolRestarts) {
	if r.Policy == "" {
		r.Policy = RestartNever
	}
}

// SetDefaults_PoolWindowsUpdates fills in what a user may leave out: nothing is installed that nobody asked for.
func SetDefaults_PoolWindowsUpdates(u *PoolWindowsUpdates) {
	if u.Install == "" {
		u.Install = InstallNone
	}
}

// SetDefaults_PoolRemediation fills in what a user may leave out.
func SetDefaults_PoolRemediation(r *PoolRemediation) {
	if r.AfterSeconds == nil {
		r.AfterSeconds = new(int64(600))
	}
	if len(r.Actions) == 0 {
		r.Actions = []PoolRemediationAction{RemediateRestartServices, RemediateRestart}
	}
	if r.MaxUnhealthy == nil {
		r.MaxUnhealthy = new(intstr.FromString("40%"))
	}
}

// SetDefaults_MaintenanceWindow fills in what a user may leave out.
func SetDefaults_MaintenanceWindow(w *MaintenanceWindow) {
	if w.TimeZone == "" {
		w.TimeZone = "UTC"
	}
}

// SetDefaults_PoolDrainOptions fills in what a user may leave out: the operations of the
// controller change or remove a host, so that what only this host has is lost in any case.
func SetDefaults_PoolDrainOptions(o *PoolDrainOptions) {
	if o.TimeoutSeconds == nil {
		o.TimeoutSeconds = new(int64(DefaultDrainTimeoutSeconds))
	}
	if o.DeleteEmptyDirData == nil {
		o.DeleteEmptyDirData = new(true)
	}
	if o.Force == nil {
		o.Force = new(true)
	}
}

const (
	// DefaultDrainTimeoutSeconds is what a drain gets by default.
	DefaultDrainTimeoutSeconds = 600
	// DefaultRebootTimeoutSeconds is what a host gets by default from its restart until its Node is ready.
	DefaultRebootTimeoutSeconds = 1200
	// DefaultUpdateTimeoutSeconds is the same for one that installs updates of Windows, or waits for a restart, mostly because of such:
	// it completes them meanwhile.
	DefaultUpdateTimeoutSeconds = 3600
)

// SetDefaults_DrainOptions fills in what a user may leave out.
func SetDefaults_DrainOptions(o *DrainOptions) {
	if o.TimeoutSeconds == nil {
		o.TimeoutSeconds = new(int64(DefaultDrainTimeoutSeconds))
	}
	if o.IgnoreDaemonSets == nil {
		o.IgnoreDaemonSets = new(true)
	}
}

// SetDefaults_WindowsInstanceRebootSpec fills in what a user may leave out.
func SetDefaults_WindowsInstanceRebootSpec(spec *WindowsInstanceRebootSpec) {
	if spec.Mode == "" {
		spec.Mode = RebootGraceful
	}
	if spec.Drain == nil && spec.Mode != RebootForce {
		spec.Drain = &DrainOptions{}
		SetDefaults_DrainOptions(spec.Drain)
	}
}

// SetDefaults_RebootOptions fills in what a user may leave out. Other restarts get their time when they are recorded, as it
// depends on whether the host waits for one.
func SetDefaults_RebootOptions(o *RebootOptions) {
	if o.TimeoutSeconds == nil && (o.InstallsUpdates() || o.Mode == RebootIfPending) {
		o.TimeoutSeconds = new(int64(DefaultUpdateTimeoutSeconds))
	}
}
