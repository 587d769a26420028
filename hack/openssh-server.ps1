# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# Installs and starts the OpenSSH Server of Windows, lets administrators log in with a public
# key, and prints the public key of the host. To be run as an administrator.
#
#   powershell.exe -ExecutionPolicy Bypass -File hack\openssh-server.ps1 -PublicKey FILE

param([Parameter(Mandatory = $true)][string]$PublicKey)

$ErrorActionPreference = 'Stop'

if (-not (Get-Service -Name sshd -ErrorAction SilentlyContinue)) {
  # It comes from Windows Update, whose service is disabled on GitHub's machines, among others. It
  # is enabled for as long as it is needed.
  $disabled = (Get-Service -Name wuauserv).StartType -eq 'Disabled'
  if ($disabled) { Set-Service -Name wuauserv -StartupType Manual }
  try {
    # It does not always answer.
    for ($try = 1; ; $try++) {
      try {
        Start-Service -Name wuauserv
        Add-WindowsCapability -Online -Name 'OpenSSH.Server~~~~0.0.1.0' | Out-Null
        break
      } catch {
        if ($try -eq 3) { throw }
        Start-Sleep -Seconds (15 * $try)
      }
    }
  } finally {
    if ($disabled) {
      Set-Service -Name wuauserv -StartupType Disabled
      Stop-Service -Name wuauserv -Force -ErrorAction Continue
    }
  }
}
Set-Service -Name sshd -StartupType Automatic
Start-Service -Name sshd

$directory = Join-Path $env:ProgramData 'ssh'
$authorized = Join-Path $directory 'administrators_authorized_keys'
$keys = @(Get-Content -LiteralPath $authorized -ErrorAction SilentlyContinue) + @(Get-Content -LiteralPath $PublicKey)
Set-Content -LiteralPath $authorized -Value $keys -Encoding ascii
# sshd reads it only if nobody else may write it. The names of the accounts are translated,
# their identifiers are not.
icacls.exe $authorized /inheritance:r /grant '*S-1-5-32-544:F' /grant '*S-1-5-18:F' | Out-Null
if ($LASTEXITCODE -ne 0) { throw "icacls.exe failed with $LASTEXITCODE" }

# The service makes its keys when it starts for the first time.
$hostKey = Join-Path $directory 'ssh_host_ed25519_key.pub'
for ($try = 1; -not (Test-Path -LiteralPath $hostKey); $try++) {
  if ($try -eq 60) { throw "sshd has made no $hostKey" }
  Start-Sleep -Seconds 1
}
Get-Content -LiteralPath $hostKey
