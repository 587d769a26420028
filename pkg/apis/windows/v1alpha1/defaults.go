// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

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

// SetDefaults_WindowsInstanceLogOptions fills in what a user may leave out. It is
// not called for a request without any query string.
func SetDefaults_WindowsInstanceLogOptions(o *WindowsInstanceLogOptions) {
	if o.CaseSensitive == nil {
		sensitive := true
		o.CaseSensitive = &sensitive
	}
	if o.Output == "" {
		o.Output = "text"
	}
}
