"""Robot skills: what each one is, and the policies, scripted or learned, that carry it out."""
